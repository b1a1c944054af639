/* See access.h for the contract. */
#include "cloud-agent/cluster/kube/access.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base64.h"
#include "common/buf.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/yaml.h"

enum { KUBECONFIG_MAX = 1 << 20, SECRET_MAX = 256 * 1024, FILES_MAX = 32 };

/* A text that is given, or is in a file. */
typedef struct source {
	char *file, *text;
} source;

struct kube_access {
	char *server, *namespace, *name;
	source token, ca, certificate, key;
};

static void wipe(char *text)
{
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
}

static void source_fini(source *s)
{
	free(s->file);
	wipe(s->text);
}

int access_open(const char *kubeconfig, const char *context, kube_access **out, error *err)
{
	if (kubeconfig != NULL && kubeconfig[0] != 0)
		return access_kubeconfig(kubeconfig, context, out, err);
	return access_in_cluster(ACCESS_SERVICE_ACCOUNT, getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT"), out, err);
}

void access_free(kube_access *a)
{
	if (a == NULL)
		return;
	free(a->server);
	free(a->namespace);
	free(a->name);
	source_fini(&a->token);
	source_fini(&a->ca);
	source_fini(&a->certificate);
	source_fini(&a->key);
	free(a);
}

const char *access_server(const kube_access *a)
{
	return a->server;
}

const char *access_namespace(const kube_access *a)
{
	return a->namespace;
}

const char *access_name(const kube_access *a)
{
	return a->name;
}

/* ---- what is in files ---- */

static int source_read(source *s, const char *what, error *err)
{
	buf text = {0};
	error here = {0};
	int code;

	if (s->file == NULL)
		return 0;
	code = file_read(s->file, SECRET_MAX, &text, &here);
	while (code == 0 && text.len > 0 && strchr(" \t\r\n", text.data[text.len - 1]) != NULL)
		text.data[--text.len] = 0;
	if (code == 0 && text.len > 0) {
		wipe(s->text);
		s->text = mem_strdup(text.data);
	}
	buf_wipe(&text);
	/* While it is replaced the last one counts. */
	if (s->text != NULL)
		return 0;
	return error_set(err, ERROR_DENIED, "%s: %s", what, code != 0 ? here.text : "the file is empty");
}

int access_identity(void *ctx, transport_identity *out, error *err)
{
	kube_access *a = ctx;
	int code = source_read(&a->token, "token", err);

	if (code == 0)
		code = source_read(&a->ca, "certificate authority", err);
	if (code == 0)
		code = source_read(&a->certificate, "client certificate", err);
	if (code == 0)
		code = source_read(&a->key, "client key", err);
	*out = (transport_identity){.token = a->token.text, .ca = a->ca.text, .certificate = a->certificate.text, .key = a->key.text};
	return code;
}

/* ---- the pod's service account ---- */

int access_in_cluster(const char *folder, const char *host, const char *port, kube_access **out, error *err)
{
	kube_access *a;
	source where = {0};
	transport_identity who;
	int code;

	if (host == NULL || host[0] == 0 || port == NULL || port[0] == 0)
		return error_set(err, ERROR_INVALID,
			"KUBERNETES_SERVICE_HOST is not set: this is no pod of a cluster. Give a kubeconfig (kube.kubeconfig, or KUBECONFIG)");
	a = mem_alloc(sizeof *a);
	a->name = mem_strdup("the service account of this pod");
	a->server = mem_printf(strchr(host, ':') != NULL ? "https://[%s]:%s" : "https://%s:%s", host, port);
	a->token.file = mem_printf("%s/token", folder);
	a->ca.file = mem_printf("%s/ca.crt", folder);
	where.file = mem_printf("%s/namespace", folder);
	code = source_read(&where, "namespace", NULL);
	a->namespace = mem_strdup(code == 0 ? where.text : "default");
	source_fini(&where);
	code = access_identity(a, &who, err);
	if (code != 0) {
		access_free(a);
		return code;
	}
	*out = a;
	return 0;
}

/* ---- kubeconfig ---- */

typedef struct config_file {
	const char *path;
	char *folder;
	const yaml_node *root;
} config_file;

typedef struct kubeconfig {
	arena *mem;
	config_file files[FILES_MAX];
	size_t n;
} kubeconfig;

static const char *text_of(const yaml_node *node)
{
	return node != NULL && node->kind == YAML_SCALAR && !yaml_is_null(node) && node->text[0] != 0 ? node->text : NULL;
}

static int read_file(kubeconfig *k, const char *path, error *err)
{
	buf text = {0};
	yaml_node **docs = NULL;
	size_t n = 0;
	int code = file_read(path, KUBECONFIG_MAX, &text, err);

	if (code == 0)
		code = yaml_parse(k->mem, path, buf_text(&text), text.len, KUBECONFIG_MAX, &docs, &n, err);
	if (code == 0 && n > 0) {
		k->files[k->n++] = (config_file){.path = path, .folder = file_parent(path), .root = docs[0]};
		if (docs[0]->kind != YAML_MAP)
			code = error_set(err, ERROR_INVALID, "%s: is no kubeconfig", path);
	}
	buf_wipe(&text);
	return code;
}

static int read_files(kubeconfig *k, const char *paths, error *err)
{
	char *list = arena_strdup(k->mem, paths), *rest = NULL;
	int code = 0;

	for (char *path = strtok_r(list, ":", &rest); code == 0 && path != NULL && k->n < FILES_MAX; path = strtok_r(NULL, ":", &rest)) {
		code = read_file(k, path, err);
		if (code == ERROR_NOT_FOUND && (strchr(paths, ':') != NULL))
			code = 0;
	}
	if (code == 0 && k->n == 0)
		code = error_set(err, ERROR_NOT_FOUND, "%s: there is no such file, or nothing in it", paths);
	return code;
}

/* The entry {name, <part>: {…}} of the list in the first file that has one. */
static const yaml_node *find(const kubeconfig *k, const char *list, const char *part, const char *name, const config_file **where)
{
	for (size_t i = 0; i < k->n; i++) {
		const yaml_node *entries = yaml_member(k->files[i].root, list);

		for (const yaml_node *e = entries != NULL ? entries->child : NULL; e != NULL; e = e->next) {
			const char *own = text_of(yaml_member(e, "name"));

			if (own != NULL && strcmp(own, name) == 0 && yaml_member(e, part) != NULL) {
				*where = &k->files[i];
				return yaml_member(e, part);
			}
		}
	}
	return NULL;
}

static int refuse(const yaml_node *part, const config_file *where, const char *const *keys, error *err)
{
	for (; *keys != NULL; keys++) {
		const yaml_node *node = yaml_member(part, *keys);
		bool on = true;

		if (node == NULL || yaml_is_null(node) || (yaml_get_bool(node, &on) == 0 && !on))
			continue;
		return error_set(err, ERROR_UNSUPPORTED, "%s:%d: %s is not supported; use a token, a token file or a client certificate%s",
			where->path, node->line, *keys,
			strncmp(*keys, "insecure", 8) == 0 ? ", and certificate-authority for a server with its own certificate" : "");
	}
	return 0;
}

/* `key` names a file, `key`-data holds base64. */
static int take_source(source *s, const yaml_node *part, const config_file *where, const char *key, error *err)
{
	char *data_key = mem_printf("%s-data", key);
	const yaml_node *data = yaml_member(part, data_key);
	const char *file = text_of(yaml_member(part, key)), *text = text_of(data);
	buf out = {0};
	int code = 0;

	if (text != NULL && base64_decode(text, &out) != 0)
		code = error_set(err, ERROR_INVALID, "%s:%d: %s is not base64", where->path, data->line, data_key);
	else if (text != NULL)
		s->text = buf_detach(&out);
	else if (file != NULL)
		s->file = file[0] == '/' ? mem_strdup(file) : mem_printf("%s/%s", where->folder, file);
	buf_fini(&out);
	free(data_key);
	return code;
}

static int take_cluster(kube_access *a, const kubeconfig *k, const char *name, error *err)
{
	static const char *const unsupported[] = {"insecure-skip-tls-verify", "tls-server-name", "proxy-url", NULL};
	const config_file *where;
	const yaml_node *cluster = find(k, "clusters", "cluster", name, &where);
	const char *server;
	size_t len;
	int code;

	if (cluster == NULL)
		return error_set(err, ERROR_NOT_FOUND, "%s: there is no cluster %s", k->files[0].path, name);
	code = refuse(cluster, where, unsupported, err);
	if (code != 0)
		return code;
	server = text_of(yaml_member(cluster, "server"));
	if (server == NULL || (strncmp(server, "https://", 8) != 0 && strncmp(server, "http://", 7) != 0))
		return error_set(err, ERROR_INVALID, "%s:%d: cluster %s: server must be a url that begins with https://", where->path,
			cluster->line, name);
	len = strlen(server);
	while (len > 0 && server[len - 1] == '/')
		len--;
	a->server = mem_printf("%.*s", (int)len, server);
	return take_source(&a->ca, cluster, where, "certificate-authority", err);
}

static int take_user(kube_access *a, const kubeconfig *k, const char *name, error *err)
{
	static const char *const unsupported[] = {
		"exec", "auth-provider", "username", "password", "as", "as-uid", "as-groups", "as-user-extra", NULL};
	const config_file *where;
	const yaml_node *user = find(k, "users", "user", name, &where);
	const char *token, *file;
	int code;

	if (user == NULL)
		return error_set(err, ERROR_NOT_FOUND, "%s: there is no user %s", k->files[0].path, name);
	code = refuse(user, where, unsupported, err);
	token = text_of(yaml_member(user, "token"));
	file = text_of(yaml_member(user, "tokenFile"));
	/* As client-go: the file counts. */
	if (file != NULL)
		a->token.file = file[0] == '/' ? mem_strdup(file) : mem_printf("%s/%s", where->folder, file);
	else
		a->token.text = mem_strdup(token);
	if (code == 0)
		code = take_source(&a->certificate, user, where, "client-certificate", err);
	if (code == 0)
		code = take_source(&a->key, user, where, "client-key", err);
	return code;
}

static const char *current_context(const kubeconfig *k)
{
	for (size_t i = 0; i < k->n; i++) {
		const char *name = text_of(yaml_member(k->files[i].root, "current-context"));

		if (name != NULL)
			return name;
	}
	return NULL;
}

static int take(kube_access *a, const kubeconfig *k, const char *name, error *err)
{
	const config_file *where;
	const yaml_node *context;
	const char *cluster, *user, *ns;
	int code;

	if (name == NULL || name[0] == 0)
		name = current_context(k);
	if (name == NULL)
		return error_set(err, ERROR_INVALID, "%s: has no current-context; set it, or name a context (kube.context)", k->files[0].path);
	context = find(k, "contexts", "context", name, &where);
	if (context == NULL)
		return error_set(err, ERROR_NOT_FOUND, "%s: there is no context %s", k->files[0].path, name);
	cluster = text_of(yaml_member(context, "cluster"));
	user = text_of(yaml_member(context, "user"));
	ns = text_of(yaml_member(context, "namespace"));
	if (cluster == NULL)
		return error_set(err, ERROR_INVALID, "%s:%d: context %s names no cluster", where->path, context->line, name);
	a->namespace = mem_strdup(ns != NULL ? ns : "default");
	a->name = mem_printf("context %s of %s", name, where->path);
	code = take_cluster(a, k, cluster, err);
	if (code == 0 && user != NULL)
		code = take_user(a, k, user, err);
	return code;
}

/* At the beginning alone: what is there later is there while it is replaced. */
static int check_pem(const source *s, const char *key, error *err)
{
	if (s->text == NULL || strstr(s->text, "-----BEGIN ") != NULL)
		return 0;
	return error_set(err, ERROR_INVALID, "%s%s%s: is not in PEM form (-----BEGIN …-----)", key, s->file != NULL ? ": " : "-data",
		s->file != NULL ? s->file : "");
}

int access_kubeconfig(const char *paths, const char *context, kube_access **out, error *err)
{
	kubeconfig k = {.mem = arena_new()};
	kube_access *a = mem_alloc(sizeof *a);
	transport_identity who;
	int code = read_files(&k, paths, err);

	if (code == 0)
		code = take(a, &k, context, err);
	if (code == 0)
		code = access_identity(a, &who, err);
	if (code == 0)
		code = check_pem(&a->ca, "certificate-authority", err);
	if (code == 0)
		code = check_pem(&a->certificate, "client-certificate", err);
	if (code == 0)
		code = check_pem(&a->key, "client-key", err);
	if (code == 0)
		*out = a;
	else
		access_free(a);
	for (size_t i = 0; i < k.n; i++)
		free(k.files[i].folder);
	arena_free(k.mem);
	return code;
}
