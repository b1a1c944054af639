/* The simulated world around both cores: one seed is one run, always the same.
 *
 * A world is a heap of events in virtual time and the things that they happen to: devices (a disk, a store, an agent's process, workers), cloud
 * agents, the cluster, the broker. Nothing reads a real clock or a real random number. A process is an object with a `life`: events of an
 * earlier life never arrive, which is what a crash is. All that is asserted is the state of the world (track.c, final.c), never a call.
 *
 *     world.c    time, chance, log           broker.c   MQTT, with client.c      disk.c      files of a node, or shared
 *     setup.c    a scenario from a seed      cluster.c  objects, API, watches    device*.c   an edge agent around its core
 *     faults.c   what goes wrong, and when   pods.c     kubelet and scheduler    cloud.c     a cloud agent around its core
 *     track.c    what must hold always       worker.c   what runs in the pods    jobs.c      what users do, with edits.c
 *     final.c    what must hold in the end   metrics.c  what workers tell        restore.c   a cluster that was set back
 *
 * One thread, one world a process; what a world holds is freed by the end of its process.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cloud-agent/core/controller.h"
#include "edge-agent/core/agent.h"

#define SECONDS(n) ((int64_t)(n)*1000)
#define MINUTES(n) ((int64_t)(n)*60 * 1000)
#define HOURS(n) ((int64_t)(n)*60 * 60 * 1000)

enum { SIM_DEVICES_MAX = 4, SIM_JOBS_MAX = 4, SIM_CLOUDS = 2, SIM_ASKS_MAX = 16, NAME_SIZE = 64, UID_SIZE = 40 };

typedef struct world world;
typedef struct device device;
typedef struct cloud cloud;
typedef struct client client;
typedef struct object object;
typedef struct pod pod;
typedef struct track track;
typedef struct dataset_file dataset_file;
typedef void (*event_fn)(world *w, void *obj, void *data);

/* ---- what can go wrong, as chances; all 0 in a quiet world ---- */

typedef struct knobs {
	double drop, repeat, slow; /* of a message */
	int64_t delay_ms, slow_ms; /* of a message; of a slow one */
	double api_fail, api_lost; /* a call fails; it is done, but its answer is an error */
	int64_t api_ms, watch_ms;
	double crash_edge, crash_cloud; /* after an action */
	int64_t file_ms, commit_ms;
	double file_fail, commit_fail;
	double work_fail, work_silent, work_twice, work_hang, load_fail; /* of a worker */
	double odd_metrics;                                              /* a worker tells nothing of use about its models */
	int64_t work_ms;
} knobs;

/* ---- jobs and what is known about them ---- */

/* A condition of the deploy trigger, and what kind of metrics it is about. */
typedef struct metric_rule {
	const char *metric, *op;
	bool list, lower, delta; /* lower: lower is better */
	double part;             /* of a list: what the metric makes of [x, x / 2] */
} metric_rule;

typedef struct job_setup {                                                                /* what the user wants */
	char name[NAME_SIZE], initial[NAME_SIZE], deploy[2 * NAME_SIZE], eval[2 * NAME_SIZE]; /* eval "": none */
	char output_dir[128], deploy_url[128], hot_dir[192];
	device *dataset_node, *train_node, *eval_node, *deploy_node;
	bool hot, pinned, restart_never, eval_model;
	double train_prob, deploy_threshold;
	const metric_rule *rule;
	bool many_metrics;
	int64_t train_threshold, check_s;
	bool timer, deploy_timer; /* triggers only for some hours of the day */
	bool broken;              /* the spec is not valid */
	int manifest_bytes;       /* padding */
	int file;                 /* of the world's dataset files */
	int64_t edited_at;        /* when it was last changed */
	object *object;           /* NULL: deleted at the moment */
} job_setup;

typedef struct round_track {
	int64_t round;
	int creates[2];       /* pods ever created: train, eval */
	bool trained;         /* the cluster holds Train/Completed */
	uint32_t *ids, *read; /* samples of the folder when training completed; that the worker read */
	size_t n_ids, n_read;
	int64_t from, to;
	int file;        /* that they came from */
	char dir[128];   /* output folder */
	int64_t told_at; /* when an eval worker told its metrics last; 0: never */
	bool back;       /* it was rolled back, to: */
	int64_t back_to;
	bool has_sha256; /* of what it deployed */
	digest sha256;
	int answer;   /* what the trigger has to say to them: 1 yes, 0 no, -1 not sure */
	bool decided; /* the cluster holds whether it is deployed */
} round_track;

typedef struct sample_track {
	uint8_t *used; /* by sample: in a completed round */
	size_t cap;
	uint32_t exempt; /* samples below this may be new again: another dataset was read meanwhile */
} sample_track;

struct track { /* of one job uid */
	char uid[UID_SIZE];
	job_setup *job;
	bool alive, placed; /* placed: pos is known */
	position pos, highest;
	int64_t since, bytes_max;
	int conditions_max;
	bool has_cursor;
	cursor cursor;
	bool has_deployed, has_sha256;
	int64_t deployed_round;
	digest sha256;
	char asks[SIM_ASKS_MAX][16]; /* rollbacks that were asked for, in this order; so many of them were decided: */
	int n_asks, n_decided, n_back;
	char ask_id[32]; /* of the last */
	bool ask_held;   /* the conditions name it */
	int64_t asked_at;
	bool reimaged;                      /* the deployed model went with the disk; until the next deployment */
	bool displaced;                     /* the cluster was set back behind a deployment; until it names another model */
	bool set_back;                      /* the cluster was, some time */
	bool unchecked;                     /* the cluster was set back by the script */
	uint64_t first_content;             /* at the deploy url before this job deployed anything */
	sample_track samples[SIM_JOBS_MAX]; /* of each dataset file */
	round_track *rounds;
	size_t n_rounds;
	int64_t failed, completed, not_better;
};

/* ---- disk ---- */

typedef struct folder { /* data/train/N */
	char output_dir[128], uid[UID_SIZE];
	int64_t round;
	bool aside;
	enum dataset_format format;
	cursor begin;
	sample_range range;
	int file;        /* that its samples came from */
	uint32_t *ids;   /* of samples range.from … */
	int64_t touched; /* virtual time of the last write, rename or move */
} folder;

typedef struct eval_folder {
	char output_dir[128];
	int64_t round;
	size_t samples;
} eval_folder;

typedef struct model_file {
	char url[192];
	uint64_t content; /* 0: nothing is there */
} model_file;

typedef struct disk {
	folder **folders;
	size_t n_folders;
	eval_folder *evals;
	size_t n_evals;
	model_file *models;
	size_t n_models;
} disk;

struct dataset_file {
	char url[128];
	device *node;
	enum dataset_format format;
	uint32_t *ids;
	int64_t *size_at;  /* [i]: bytes before sample i; n + 1 entries */
	uint64_t *hash_at; /* of the samples before i */
	int64_t n, cap, generation, changed_ms;
	bool missing;
	uint32_t next_id;
	uint32_t exempt; /* samples below this were in the file when it was cut or replaced: they may be new again */
};

/* ---- a device ---- */

typedef struct saved { /* what the store holds */
	store_meta meta;
	record **jobs;
	size_t n_jobs;
	char **dataset_uids, **datasets;
	size_t n_datasets;
	provisional *early;
	size_t n_early;
} saved;

typedef struct post_wait {
	uint64_t id;
	pod *p;
	uint64_t pod_life;
} post_wait;

struct device {
	world *w;
	char name[NAME_SIZE];
	disk disk;
	saved store, backup;
	bool has_backup;
	edge_agent *agent; /* NULL: the process is down */
	edge_config config;
	client *link;
	uint64_t life, looks[SIM_JOBS_MAX];
	int look_life[SIM_JOBS_MAX];
	int64_t mono_base, wall_offset, wake_at;
	bool pump_due, powered, lan; /* lan: the API server sees its kubelet */
	bool disk_full, listed;
	int restarts;
	post_wait posts[64];
	size_t n_posts;
};

/* ---- the cluster ---- */

struct object {
	object *next;
	enum object_kind kind;
	char ns[NAME_SIZE], name[NAME_MAX_NAME + 1], uid[UID_SIZE];
	cJSON *json;    /* NULL: deleted */
	unsigned known; /* bit per cloud: fed, and not fed as gone */
	pod *pod;
	track *track;
};

struct pod {
	object *o;
	device *node; /* NULL: not bound */
	char job_uid[UID_SIZE], job_name[NAME_SIZE], worker[WORKER_NAME_SIZE];
	enum worker_kind kind;
	int64_t round;
	enum { POD_IS_PENDING, POD_IS_RUNNING, POD_IS_SUCCEEDED, POD_IS_FAILED } phase;
	bool deleting, restart_never, dirty; /* dirty: its status is not reported yet */
	int restarts;
	uint64_t life; /* of the process in it */
	bool by_hand;  /* the script says what the worker does */
	char model_url[192], data_url[192], model_urls[400];
	bool hot;
	/* the process */
	bool posted, accepted, hangs;
	int attempts, last_status;
	int loaded_round;
	uint64_t loaded;
};

typedef struct lease {
	cloud *holder;
	int64_t epoch, expires;
} lease;

struct cloud {
	world *w;
	int index;
	char name[NAME_SIZE];
	controller *c; /* NULL: down */
	cloud_config config;
	client *link;
	uint64_t life, watch_life;
	int64_t mono_base, wall_offset, wake_at, fence, stalled_until, api_down_until, watch_last[OBJECT_KINDS];
	bool pump_due, leading, enabled, retry_due;
	bool frozen; /* it cannot renew: the fence stands */
	int restarts;
	int64_t creates, clears, inventories, publishes, writes, patches, deletes; /* performed in this world, for scripts */
};

/* ---- the broker ---- */

typedef struct msg {
	int refs;
	bool retained;
	size_t len;
	char *topic, *payload;
} msg;

typedef struct hold { /* scripts: messages that wait */
	bool active;
	client *to, *from; /* NULL: any */
	char part[128];    /* of the topic */
	char text[64];     /* of the payload; "": any */
	msg **held;
	client **dest; /* NULL: to the broker */
	client **src;
	size_t n;
} hold;

typedef struct broker {
	client **clients;
	size_t n_clients;
	msg **retained, **backup;
	size_t n_retained, n_backup;
	bool up;
	hold holds[8];
} broker;

/* ---- the world ---- */

typedef struct event {
	int64_t t;
	uint64_t seq;
	event_fn fn;
	void *obj, *data;
	const uint64_t *life;
	uint64_t expect;
} event;

struct world {
	uint64_t seed, random;
	int64_t now, unix_base;
	event *heap;
	size_t n_heap, cap_heap;
	uint64_t seq, n_events;
	bool verbose, script, quiet;
	knobs k;
	char (*ring)[320];
	uint64_t n_ring;

	device devices[SIM_DEVICES_MAX];
	size_t n_devices;
	cloud clouds[SIM_CLOUDS];
	broker broker;
	object *objects;
	int64_t rv;
	uint64_t next_uid, next_post, next_content;
	lease lease;
	struct cluster_copy *cluster_copy; /* NULL: none */
	int restores;                      /* of the cluster; what was asked of it before has no effect */
	disk shared;                       /* s3:// */
	dataset_file files[SIM_JOBS_MAX];
	size_t n_files;
	job_setup jobs[SIM_JOBS_MAX];
	size_t n_jobs;
	track **tracks;
	size_t n_tracks;
	bool sedna_crds, nodes_listed, gc, retain_as_published, check_on_arrival;
	int conditions_max;
	int64_t slow_ms, target_rounds, last_fault, faults_until;
};

/* ---- world.c ---- */

void world_init(world *w, uint64_t seed, bool verbose);
void at(world *w, int64_t t, event_fn fn, void *obj, void *data);
/* Does not happen if *life is another one by then; data is freed. */
void at_life(world *w, int64_t t, event_fn fn, void *obj, void *data, const uint64_t *life);
bool world_step(world *w, int64_t until); /* false: nothing more before that; now == until */
void world_run(world *w, int64_t ms);
uint64_t rnd(world *w);
int64_t rnd_range(world *w, int64_t from, int64_t to); /* both included */
bool chance(world *w, double p);
/* Between half and one and a half of mean; rarely ten times as long. */
int64_t rnd_delay(world *w, int64_t mean);
void say(world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Ends the process with status 1. Guarantee 0: the simulator's own expectation (scripts). */
void violated(world *w, int guarantee, const char *fmt, ...) __attribute__((format(printf, 3, 4), noreturn));
moment moment_at(const world *w, int64_t mono_base, int64_t wall_offset);
void hex_id(world *w, char *out, size_t chars);

/* ---- broker.c ---- */

typedef struct client_events {
	void (*up)(world *w, void *obj);
	void (*down)(world *w, void *obj);
	void (*message)(world *w, void *obj, const msg *m);
} client_events;

client *client_new(world *w, const char *id, void *obj, const client_events *events);
void client_filters(client *c, char **filters, size_t n); /* taken */
/* The process begins to connect, with this will (taken). */
void client_start(world *w, client *c, char *will_topic, char *will);
void client_stop(world *w, client *c, bool clean);
void client_network(world *w, client *c, bool up);
bool client_up(const client *c);
void client_publish(world *w, client *c, const char *name, const char *payload, bool retained);
void broker_restart(world *w, int kept); /* 2: all; 1: an older state; 0: nothing */
void broker_save(world *w);
void broker_put(world *w, const char *name, const char *payload); /* retained, by somebody */
const msg *broker_retained(const world *w, const char *name);     /* NULL: none */
void msg_drop(msg *m);
hold *broker_hold(world *w, client *from, client *to, const char *part, const char *text);
void broker_release(world *w, hold *h);
void broker_release_first(world *w, hold *h); /* one message; the others stay */
void broker_lose(world *w, hold *h);

/* ---- disk.c ---- */

disk *disk_of(world *w, device *d, const char *url);
folder *folder_find(disk *k, const char *output_dir, int64_t round);
folder *folder_add(disk *k, const char *output_dir, int64_t round);
bool folder_of_url(const char *url, const char *kind, char *output_dir, size_t size, int64_t *round);
eval_folder *eval_find(disk *k, const char *output_dir, int64_t round);
eval_folder *eval_add(disk *k, const char *output_dir, int64_t round);
uint64_t model_get(const disk *k, const char *url);
void model_put(disk *k, const char *url, uint64_t content);
/* Deployed versions: keep one (0: first, what serves now); of a job, newest first; take away all but the newest; `of` stays, too. */
void version_url(char *out, size_t size, const char *output_dir, int64_t round, const char *uid);
void version_keep(disk *k, const char *output_dir, int64_t round, const char *uid, uint64_t content);
uint64_t version_recorded(const disk *k, const char *output_dir, int64_t round, const char *uid); /* what it was when it was kept */
size_t version_list(const disk *k, const char *output_dir, const char *uid, int64_t *rounds, size_t max);
void version_prune(disk *k, const char *output_dir, int64_t round, int64_t of, const char *uid);
void disk_wipe(disk *k);
digest content_digest(uint64_t content);
double content_quality(uint64_t content);
void file_init(world *w, dataset_file *f, device *node, const char *url, enum dataset_format format);
void file_append(world *w, dataset_file *f, int64_t n);
void file_truncate(world *w, dataset_file *f, int64_t left);
void file_replace(world *w, dataset_file *f, int64_t n); /* other samples */
cursor file_cursor(const dataset_file *f, int64_t index, int64_t sample);
/* Index of the first sample after what the cursor names, -1: the file does not begin so. */
int64_t file_locate(const dataset_file *f, const cursor *c);
dataset_file *file_of(world *w, const device *d, const char *url);

/* ---- saved.c ---- */

void saved_apply(saved *s, const edge_change *changes, size_t n);
void saved_copy(saved *to, const saved *from);
void saved_fini(saved *s);

/* ---- device.c, device_files.c, device_post.c ---- */

void device_init(world *w, device *d, const char *name);
void device_start(world *w, device *d);
void device_crash(world *w, device *d, int64_t down_ms); /* < 0: stays down */
void device_stop(world *w, device *d);                   /* clean; stays down */
void device_pump_soon(world *w, device *d);
void device_look(world *w, dataset_file *f); /* the file changed */
void device_files_sync(world *w, device *d);
void device_file_action(world *w, device *d, const edge_action *a);
void device_network(world *w, device *d, bool up); /* broker and API server */
void device_power(world *w, device *d, bool on);
void device_lose_store(world *w, device *d);
void device_backup(world *w, device *d);
void device_restore(world *w, device *d);
void device_reimage(world *w, device *d, bool dataset_kept);
/* False: no connection. Takes body. */
bool device_post(world *w, device *d, pod *p, worker_post *body);
void device_posts_lost(world *w, device *d);
void device_reply(world *w, device *d, uint64_t id, int status, const char *message);
moment device_moment(const device *d);

/* ---- cluster.c ---- */

object *object_add(world *w, enum object_kind kind, const char *name, cJSON *json); /* takes json; uid and version are given */
object *object_find(const world *w, enum object_kind kind, const char *name);
object *object_uid(const world *w, const char *uid);
void object_changed(world *w, object *o);
void object_delete(world *w, object *o);
const char *object_version(const object *o);
void api_patch(world *w, cloud *c, const cloud_action *a);
void api_annotate(world *w, cloud *c, const cloud_action *a);
void api_create(world *w, cloud *c, const cloud_action *a);
void api_delete(world *w, cloud *c, const cloud_action *a);
void watch_send(world *w, cloud *c, object *o);

/* ---- pods.c, worker.c ---- */

pod *pod_new(world *w, object *o);
void pod_delete(world *w, pod *p); /* as the API server does: first Terminating */
void pod_gone(world *w, pod *p);   /* at once, by force */
void pod_taken(world *w, pod *p);  /* somebody else takes it: before its creation is in the cluster, it may be made again */
void pod_report(world *w, pod *p);
void pod_flush(world *w, device *d); /* the kubelet is heard again */
void pod_end(world *w, pod *p, bool succeeded);
void pod_container_failed(world *w, pod *p);
void pod_power(world *w, device *d, bool on);
pod *pod_find(const world *w, const char *job_uid, enum worker_kind kind, int64_t round); /* NULL: none */
bool pod_alive(const pod *p);
void url_outside(char *out, size_t size, const char *path); /* what a path that a worker sees stands for */
void worker_start(world *w, pod *p);
void worker_read(world *w, pod *p);                            /* by hand: the samples */
void worker_write(world *w, pod *p);                           /* by hand: the model */
void worker_post_result(world *w, pod *p, const char *status); /* "completed", "failed" */
void worker_answer(world *w, pod *p, uint64_t life, int status);
void worker_not_hot(device *d, const char *ns, const char *job); /* nothing is in the hot-update folder any more */
void worker_hot(world *w, device *d, const char *ns, const char *job, uint64_t content);

/* ---- cloud.c ---- */

void cloud_init(world *w, cloud *c, int index);
void cloud_start(world *w, cloud *c);
void cloud_crash(world *w, cloud *c, int64_t down_ms); /* < 0: stays down */
void cloud_stall(world *w, cloud *c, int64_t ms);
void cloud_api_down(world *w, cloud *c, int64_t ms);
void cloud_relist(world *w, cloud *c, int64_t delay_ms);
void cloud_feed_all(world *w, cloud *c);
void cloud_pump_soon(world *w, cloud *c);
void cloud_lead(world *w, cloud *c);
void cloud_resign(world *w, cloud *c);
bool cloud_healthy(const cloud *c);
moment cloud_moment(const cloud *c);
cloud *leader(world *w);

/* ---- setup.c ---- */

void setup_random(world *w);
void setup_script(world *w, size_t devices); /* one job "job" on devices[0] (dataset), [1 or 0] (train), [2 or 0] (deploy); quiet */
void job_defaults(world *w, job_setup *j, int index);

/* ---- jobs.c ---- */

void job_create(world *w, job_setup *j);
void job_delete(world *w, job_setup *j);
void job_edit(world *w, job_setup *j);                   /* its spec becomes what the setup says now */
void job_ask(world *w, job_setup *j, const char *round); /* for a rollback */
void job_read_other(world *w, job_setup *j, int file);   /* another dataset; to be followed by job_edit */
void models_create(world *w, job_setup *j);              /* those that are not there */
void dataset_create(world *w, int file);                 /* if it is not there */
void node_create(world *w, device *d);

/* ---- edits.c ---- */

void job_edit_random(world *w, job_setup *j);
void job_edit_plain(world *w, job_setup *j); /* valid, and without hours of the day */

/* ---- metrics.c ---- */

const metric_rule *metric_rule_random(world *w);
const metric_rule *metric_rule_first(void);
double rule_threshold(const job_setup *j);
/* What an evaluation says of a model; NULL is possible where it is odd. */
cJSON *metrics_of(const job_setup *j, double quality, bool odd);
/* What the deploy trigger has to say to them: 1, 0, or -1 where it is too close to call. */
int metrics_answer(const job_setup *j, double fresh, double old);

/* ---- restore.c ---- */

void cluster_backup(world *w);
bool cluster_restore(world *w); /* both cloud agents end; false: there is no backup */

/* ---- run.c ---- */

int sim_random(uint64_t seed, int64_t rounds, bool verbose); /* a whole run; 0: all guarantees held */
void sim_long(int64_t rounds);
void world_settle(world *w); /* runs until it has settled and one retry period more, then checks all */

/* ---- faults.c ---- */

void faults_plan(world *w);
void faults_end(world *w);

/* ---- track.c ---- */

track *track_new(world *w, job_setup *j, const char *uid);
track *track_of(const world *w, const char *uid);
round_track *track_round(track *t, int64_t round);
void track_status(world *w, object *o);                    /* its status was written */
void track_create(world *w, const cloud *c, const pod *p); /* a pod was made */
void track_publish(world *w, cloud *c, const char *where, const char *payload);
void track_deploy(world *w, device *d, const char *uid, const char *url, uint64_t content); /* a model file was written */
void track_write_allowed(world *w, const cloud *c, const char *what);
void track_eval(world *w, const pod *p, int answer); /* a worker told its metrics */
void track_rebuild(world *w, track *t);              /* which samples are used, from the rounds that completed */
bool job_asks(const object *o);                      /* a rollback that is not decided yet, or whose traces are not gone */
void track_ask(world *w, track *t, const char *value);
bool condition_position(const cJSON *job, position *out);
bool payload_position(const char *payload, position *out);

/* ---- final.c ---- */

bool world_settled(world *w);
void final_checks(world *w);
void bounds_check(world *w);

#endif
