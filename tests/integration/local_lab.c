/* A local cluster in a test: see local_lab.h. */
#include "tests/integration/local_lab.h"

#include <ctype.h>
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cloud-agent/cluster/local/manifests.h"
#include "common/buf.h"
#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"

/* ---- what is told ---- */

static void on_object(void *ctx, enum object_kind kind, const char *ns, const char *name, cJSON *object)
{
	lab *l = ctx;
	char *key = mem_printf("%s/%s/%s", manifest_kind(kind), ns, name);
	buf_printf(&l->order, "%c%s/%s ", object != NULL ? '+' : '-', manifest_kind(kind), name);
	cJSON_DeleteItemFromObjectCaseSensitive(l->objects, key);
	json_put(l->objects, key, object);
	l->told++;
	free(key);
}

static void on_together(void *ctx, bool begin)
{
	lab *l = ctx;
	buf_puts(&l->order, begin ? "[" : "]");
}

static void on_synced(void *ctx, bool synced)
{
	lab *l = ctx;
	l->synced = synced;
}

static void on_lead(void *ctx, int64_t epoch)
{
	lab *l = ctx;
	assert_true(epoch > l->epoch);
	l->epoch = epoch;
}

static void on_resign(void *ctx)
{
	(void)ctx;
	fail_msg("nobody else can lead");
}

static void on_fence(void *ctx, int64_t mono_ms)
{
	(void)ctx;
	assert_true(mono_ms == INT64_MAX);
}

static void on_done(void *ctx, uint64_t id, int code, const char *text, cJSON *object, int64_t retry_after_ms)
{
	lab *l = ctx;
	assert_int_equal(id, 7);
	assert_int_equal(retry_after_ms, 0);
	assert_false(l->answered);
	l->answered = true;
	l->code = code;
	snprintf(l->text, sizeof l->text, "%s", text);
	cJSON_Delete(l->object);
	l->object = object;
}

static void on_stopped(void *ctx)
{
	lab *l = ctx;
	l->stopped = true;
}

/* ---- life ---- */

void lab_init(lab *l)
{
	signal(SIGPIPE, SIG_IGN); /* as daemon_init does: a worker that ends may leave the agent's end of a FIFO alone */
	*l = (lab){.folder = folder_new()};
	l->manifests = mem_printf("%s/manifests", l->folder);
	l->state = mem_printf("%s/state", l->folder);
	l->transfer = mem_printf("%s/transfer", l->folder);
	assert_int_equal(mkdir(l->manifests, 0755), 0);
	l->config = (cluster_local_config){.manifests = l->manifests,
		.state = l->state,
		.supervisor = LAB_SUPERVISOR,
		.transfer = l->transfer,
		.settle_ms = 10,
		.remove_ms = 100,
		.rescan_ms = 60000,
		.restart_min_ms = 50,
		.restart_max_ms = 200,
		.restart_reset_ms = 10000};
}

int lab_try_start(lab *l, error *err)
{
	cluster_events events = {.ctx = l,
		.object = on_object,
		.together = on_together,
		.synced = on_synced,
		.lead = on_lead,
		.resign = on_resign,
		.fence = on_fence};
	assert_int_equal(uv_loop_init(&l->loop), 0);
	l->synced = l->stopped = false;
	cJSON_Delete(l->objects);
	l->objects = cJSON_CreateObject();
	l->cluster = cluster_local_new(&l->loop, &l->config, &events, on_done, l, err);
	return l->cluster != NULL ? l->cluster->ops->start(l->cluster, err) : err->code;
}

void lab_start(lab *l)
{
	error err = {0};
	if (lab_try_start(l, &err) != 0)
		fail_msg("%s", err.text);
	loop_until(&l->loop, l->synced, 20000);
}

void lab_stop(lab *l)
{
	l->cluster->ops->stop(l->cluster, on_stopped, l);
	loop_until(&l->loop, l->stopped, 20000);
	l->cluster->ops->free(l->cluster);
	l->cluster = NULL;
	loop_fini(&l->loop);
}

void lab_fini(lab *l)
{
	if (l->cluster != NULL)
		lab_stop(l);
	int left = lab_wait_processes(l, 0);
	folder_remove(l->folder);
	cJSON_Delete(l->objects);
	cJSON_Delete(l->object);
	buf_fini(&l->order);
	free(l->manifests);
	free(l->state);
	free(l->transfer);
	free(l->folder);
	if (left != 0)
		fail_msg("%d processes are left", left);
}

int lab_setup(void **state)
{
	lab *l = mem_alloc(sizeof *l);
	lab_init(l);
	*state = l;
	return 0;
}

int lab_setup_started(void **state)
{
	lab_setup(state);
	lab_start(*state);
	return 0;
}

int lab_teardown(void **state)
{
	lab *l = *state;
	lab_fini(l);
	free(l);
	return 0;
}

/* ---- operations ---- */

void lab_put(const lab *l, const char *file, const char *text)
{
	char *temp = folder_file(l->folder, "new", text), *path = mem_printf("%s/%s", l->manifests, file);
	assert_int_equal(rename(temp, path), 0);
	free(temp);
	free(path);
}

void lab_drop(const lab *l, const char *file)
{
	char *path = mem_printf("%s/%s", l->manifests, file);
	assert_int_equal(unlink(path), 0);
	free(path);
}

static int answer(lab *l)
{
	loop_until(&l->loop, l->answered, 20000);
	l->answered = false;
	return l->code;
}

static cJSON *tree(const char *text)
{
	cJSON *value = NULL;
	error err = {0};
	if (json_parse(text, strlen(text), 1 << 20, &value, &err) != 0)
		fail_msg("%s: %s", err.text, text);
	return value;
}

int lab_create(lab *l, const char *name, const char *pod_text)
{
	cJSON *pod = tree(pod_text);
	l->cluster->ops->create_pod(l->cluster, 7, "default", name, pod);
	cJSON_Delete(pod);
	return answer(l);
}

int lab_run(lab *l, const char *name, const char *policy, const char *script, const char *more)
{
	cJSON *text = cJSON_CreateString(script);
	char *quoted = json_print(text);
	char *pod = mem_printf("{\"metadata\":{\"name\":\"%s\",\"labels\":{\"l\":\"v\"}},\"spec\":{\"nodeName\":\"n\",\"restartPolicy\":\"%s\","
						   "\"containers\":[{\"name\":\"c\",\"command\":[\"/bin/sh\",\"-c\",%s]}]%s}}",
		name, policy, quoted, more);
	int code = lab_create(l, name, pod);
	free(pod);
	free(quoted);
	cJSON_Delete(text);
	return code;
}

int lab_delete(lab *l, const char *name, const char *uid)
{
	const char *own = lab_text(lab_pod(l, name), "metadata.uid");
	char *copy = mem_strdup(uid != NULL ? uid : own);
	l->cluster->ops->delete_pod(l->cluster, 7, "default", name, copy);
	free(copy);
	return answer(l);
}

int lab_patch(lab *l, enum object_kind kind, const char *name, const char *version, const char *status)
{
	const cJSON *object = lab_object(l, manifest_kind(kind), name);
	/* All of it is needed until the answer. */
	cJSON *body = tree(status);
	char *uid = mem_strdup(lab_text(object, "metadata.uid")), *guard = version != NULL ? mem_strdup(version) : NULL;
	l->cluster->ops->patch_status(l->cluster, 7, kind, "default", name, uid, guard, body);
	int code = answer(l);
	cJSON_Delete(body);
	free(uid);
	free(guard);
	return code;
}

/* ---- looking ---- */

const cJSON *lab_object(const lab *l, const char *kind, const char *name)
{
	char *key = mem_printf("%s/default/%s", kind, name);
	const cJSON *object = json_member(l->objects, key);
	free(key);
	return object;
}

const cJSON *lab_pod(const lab *l, const char *name)
{
	return lab_object(l, "Pod", name);
}

static const cJSON *at_path(const cJSON *object, const char *path)
{
	while (object != NULL && *path != '\0') {
		size_t n = strcspn(path, ".");
		char *name = mem_strndup(path, n);
		object = cJSON_IsArray(object) ? cJSON_GetArrayItem(object, atoi(name)) : json_member(object, name);
		free(name);
		path += n + (path[n] == '.');
	}
	return object;
}

const char *lab_text(const cJSON *object, const char *path)
{
	const char *text = cJSON_GetStringValue(at_path(object, path));
	return text != NULL ? text : "";
}

double lab_number(const cJSON *object, const char *path)
{
	const cJSON *value = at_path(object, path);
	return cJSON_IsNumber(value) ? value->valuedouble : -1;
}

bool lab_phase_is(const lab *l, const char *pod, const char *phase)
{
	return strcmp(lab_text(lab_pod(l, pod), "status.phase"), phase) == 0;
}

char *lab_file(const lab *l, const char *path)
{
	char *whole = mem_printf("%s/%s", l->folder, path);
	buf text = {0};
	file_read(whole, 64 << 20, &text, NULL);
	free(whole);
	return buf_detach(&text);
}

bool lab_exists(const lab *l, const char *path)
{
	char *whole = mem_printf("%s/%s", l->folder, path);
	bool there = access(whole, F_OK) == 0;
	free(whole);
	return there;
}

int lab_count(const lab *l, const char *path, char c)
{
	char *text = lab_file(l, path);
	int n = 0;
	for (const char *p = text; *p != '\0'; p++)
		n += *p == c;
	free(text);
	return n;
}

static bool belongs(const lab *l, const char *number)
{
	char *cwd = mem_printf("/proc/%s/cwd", number), *cmdline = mem_printf("/proc/%s/cmdline", number), link[1024];
	ssize_t n = readlink(cwd, link, sizeof link - 1);
	link[n > 0 ? n : 0] = '\0';
	buf text = {0};
	file_read(cmdline, 1 << 20, &text, NULL);
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] == '\0')
			text.data[i] = ' ';
	}
	bool ours = strstr(link, l->folder) != NULL || strstr(buf_text(&text), l->folder) != NULL;
	buf_fini(&text);
	free(cwd);
	free(cmdline);
	return ours;
}

int lab_wait_processes(const lab *l, int most)
{
	int n = lab_processes(l);
	for (int i = 0; n > most && i < 20000; i++) {
		usleep(1000); /* between two looks */
		n = lab_processes(l);
	}
	return n;
}

int lab_processes(const lab *l)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	int n = 0;
	assert_non_null(proc);
	while ((entry = readdir(proc)) != NULL)
		n += isdigit((unsigned char)entry->d_name[0]) && belongs(l, entry->d_name);
	closedir(proc);
	return n;
}
