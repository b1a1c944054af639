/* See folder.h for the contract. */
#include "certificate/folder.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/pki.h"

#define PAIR_FILE "node.pem"
#define KEY_FILE "node.key.new"
#define HALF_WRITTEN ".ilmare-" /* what file_write calls a file until it has its name */

static char *path_of(const char *dir, const char *name)
{
	return mem_printf("%s/%s", dir, name);
}

/* Room for a key at once: a buffer that grows leaves pieces of it behind. */
static void secret_init(buf *b)
{
	buf_reserve(b, PKI_FILE_MAX + 1);
}

static int read_key(const char *path, EVP_PKEY **out, error *err)
{
	buf text = {0};
	int code;

	secret_init(&text);
	code = file_read(path, PKI_FILE_MAX, &text, err);
	*out = code == 0 ? pki_key_parse(buf_text(&text), text.len) : NULL;
	if (code == 0 && !*out)
		code = error_set(err, ERROR_INVALID, "%s holds no key in PEM form", path);
	buf_wipe(&text);
	return code;
}

/* A crash after node.pem was written leaves the key that is in it; the next certificate is to have a key of its own. */
static bool is_used(const char *dir, const EVP_PKEY *key)
{
	char *path = path_of(dir, PAIR_FILE);
	EVP_PKEY *present = NULL;
	bool used = read_key(path, &present, NULL) == 0 && EVP_PKEY_eq(present, key) == 1;

	EVP_PKEY_free(present);
	free(path);
	return used;
}

static int make_key(const char *path, EVP_PKEY **out, error *err)
{
	buf text = {0};
	int code = 0;

	secret_init(&text);
	*out = pki_key_new(err);
	if (!*out)
		code = ERROR_INTERNAL;
	if (code == 0)
		code = pki_key_print(*out, &text, err);
	if (code == 0)
		code = file_write(path, text.data, text.len, 0600, err);
	buf_wipe(&text);
	if (code == 0)
		return 0;
	EVP_PKEY_free(*out);
	*out = NULL;
	return code;
}

/* What was killed while it wrote left a key behind, perhaps. */
static void remove_half_written(const char *dir)
{
	DIR *there = opendir(dir);
	const struct dirent *entry;

	while (there && (entry = readdir(there)) != NULL)
		if (strncmp(entry->d_name, HALF_WRITTEN, sizeof HALF_WRITTEN - 1) == 0)
			(void)unlinkat(dirfd(there), entry->d_name, 0);
	if (there)
		closedir(there);
}

int folder_new_key(const char *dir, EVP_PKEY **out, error *err)
{
	char *path = path_of(dir, KEY_FILE);
	int code = file_make_dirs(dir, 0700, err);

	remove_half_written(dir);
	if (code == 0)
		code = read_key(path, out, err);
	if (code == 0 && is_used(dir, *out)) {
		EVP_PKEY_free(*out);
		code = ERROR_NOT_FOUND;
	}
	/* One that is there and cannot be read as a key, of a disk that was full, say, is of no use to anybody. */
	if (code == ERROR_NOT_FOUND || code == ERROR_INVALID)
		code = make_key(path, out, err);
	free(path);
	return code;
}

int folder_present(const char *dir, buf *certificate, EVP_PKEY **key, error *err)
{
	char *path = path_of(dir, PAIR_FILE);
	buf text = {0};
	X509 *cert = NULL;
	int code;

	*key = NULL;
	secret_init(&text);
	code = file_read(path, PKI_FILE_MAX, &text, err);
	if (code == 0) {
		cert = pki_certificate_parse(buf_text(&text), text.len);
		*key = pki_key_parse(buf_text(&text), text.len);
		if (!cert || !*key || X509_check_private_key(cert, *key) != 1)
			code = error_set(err, ERROR_INVALID, "%s does not hold a certificate and its key", path);
	}
	if (code == 0)
		code = pki_certificate_print(cert, certificate, err);
	if (code != 0) {
		EVP_PKEY_free(*key);
		*key = NULL;
	}
	X509_free(cert);
	buf_wipe(&text);
	free(path);
	return code;
}

int folder_install(const char *dir, const char *certificates, EVP_PKEY *key, error *err)
{
	char *path = path_of(dir, PAIR_FILE), *pending = path_of(dir, KEY_FILE);
	buf text = {0};
	int code;

	secret_init(&text);
	buf_puts(&text, certificates);
	if (text.len > 0 && text.data[text.len - 1] != '\n')
		buf_putc(&text, '\n');
	code = pki_key_print(key, &text, err);
	if (code == 0)
		code = file_write(path, text.data, text.len, 0600, err);
	if (code == 0)
		(void)unlink(pending); /* one that stays is known to be used */
	buf_wipe(&text);
	free(path);
	free(pending);
	return code;
}
