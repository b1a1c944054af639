/* What the files that make a pod share: pod.c (metadata, variables, the whole), pod_volumes.c (files). */
#ifndef CLOUD_CORE_POD_H
#define CLOUD_CORE_POD_H

#include "cloud-agent/core/core.h"

#define POD_DATA_PREFIX "/home/data"
#define POD_HOT_FOLDER "/model-hot-update"

typedef struct pod_fetched { /* a remote url that the worker reads */
	char *url, *secret;      /* secret: name, or NULL */
	bool index;              /* a list of the files that are to be fetched */
} pod_fetched;

typedef struct pod_files { /* what the variables name, gathered while they are made */
	char **mounts;         /* folders of the node, each once */
	size_t n_mounts;
	pod_fetched *fetched;
	size_t n_fetched;
	const char *hot_folder; /* of the node; NULL: none */
} pod_files;

void pod_files_fini(pod_files *f);
/* The path at which a worker finds what it reads, or the url at which it writes; to be freed. */
char *pod_file_read(const controller *c, const job *j, pod_files *f, const char *url, bool index);
char *pod_file_written(const controller *c, pod_files *f, const char *url);
/* Volumes, mounts and init containers. */
void pod_files_mount(const controller *c, const job *j, const pod_files *f, cJSON *spec);

/* The Secret for this url: the one of the object that has it, else the job's, else the dataset's. NULL: none. */
const char *pod_credential(const controller *c, const job *j, const char *url);
void pod_env_credential(const controller *c, const job *j, cJSON *env, const char *secret);

#endif
