/* A device's key and certificate on the disk: whatever the moment at which the program is killed, the pair that is there fits, and the next run goes
 * on to its end. */
#include "certificate/folder.h"
#include "common/pki.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <sys/stat.h>

/* The n-th of these calls does not come about: the process ends before it, as by SIGKILL. 0: none. */
static int kill_at, calls;

static void step(void)
{
	if (++calls == kill_at)
		_exit(9);
}

int __real_mkostemp(char *name, int flags);
int __wrap_mkostemp(char *name, int flags);
int __wrap_mkostemp(char *name, int flags)
{
	step();
	return __real_mkostemp(name, flags);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	step();
	return __real_fsync(fd);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
	step();
	return __real_rename(from, to);
}

int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
	step();
	return __real_unlink(path);
}

/* A certificate for a key, signed by itself: who signs is of no interest here. */
static char *certify(EVP_PKEY *key)
{
	X509 *cert = X509_new();
	buf text = {0};

	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_set_pubkey(cert, key);
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	assert_int_equal(pki_certificate_print(cert, &text, NULL), 0);
	X509_free(cert);
	return buf_detach(&text);
}

/* All that a run does there. */
static void run(const char *dir)
{
	EVP_PKEY *key = NULL;
	error err = {0};
	char *cert;

	if (folder_new_key(dir, &key, &err) != 0)
		fail_msg("%s", err.text);
	cert = certify(key);
	if (folder_install(dir, cert, key, &err) != 0)
		fail_msg("%s", err.text);
	free(cert);
	EVP_PKEY_free(key);
}

static bool present(const char *dir, digest *key_digest)
{
	EVP_PKEY *key = NULL;
	buf cert = {0};
	bool there = folder_present(dir, &cert, &key, NULL) == 0;

	if (there)
		pki_key_digest(key, key_digest);
	EVP_PKEY_free(key);
	buf_fini(&cert);
	return there;
}

static int count_files(const char *dir)
{
	DIR *there = opendir(dir);
	int n = 0;

	for (const struct dirent *entry; (entry = readdir(there)) != NULL;)
		n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(there);
	return n;
}

static mode_t mode_of(const char *dir, const char *name)
{
	char *path = mem_printf("%s/%s", dir, name);
	struct stat st;
	mode_t mode = stat(path, &st) == 0 ? st.st_mode & 07777 : 0;

	free(path);
	return mode;
}

/* In a process of its own, killed at step n; true if it came to its end. */
static bool run_killed(const char *dir, int n)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		calls = 0;
		kill_at = n;
		run(dir);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9);
	return WEXITSTATUS(status) == 0;
}

static void each_step(bool renewal)
{
	bool whole = false;
	int n;

	for (n = 1; !whole; n++) {
		char *base = unit_folder(), *dir = mem_printf("%s/a/tls", base);
		digest before = {{0}}, killed = {{0}}, after = {{0}};

		if (renewal)
			run(dir);
		assert_int_equal(present(dir, &before), renewal);
		whole = run_killed(dir, n);
		/* The old pair or the new one, and none only if there was none. */
		assert_true(present(dir, &killed) || !renewal);
		run(dir);
		assert_true(present(dir, &after));
		/* And no key gets a second certificate. */
		assert_false(digest_equal(&after, &before));
		assert_false(digest_equal(&after, &killed));
		assert_int_equal(mode_of(dir, "node.pem"), 0600);
		assert_int_equal(mode_of(dir, "node.key.new"), 0);
		assert_int_equal(mode_of(dir, ""), 0700);
		assert_int_equal(count_files(dir), 1);
		free(dir);
		unit_folder_remove(base);
	}
	assert_true(n > 7); /* there were steps */
}

static void test_first(void **state)
{
	(void)state;
	each_step(false);
}

static void test_renewal(void **state)
{
	(void)state;
	each_step(true);
}

/* The key that has no certificate yet is kept from one try to the next: an answer that was lost can be had again. */
static void test_key_is_kept(void **state)
{
	char *dir = unit_folder(), *cert;
	EVP_PKEY *first, *second, *third;
	error err = {0};

	(void)state;
	assert_int_equal(folder_new_key(dir, &first, &err), 0);
	assert_int_equal(mode_of(dir, "node.key.new"), 0600);
	assert_int_equal(folder_new_key(dir, &second, &err), 0);
	assert_int_equal(EVP_PKEY_eq(first, second), 1);
	cert = certify(first);
	assert_int_equal(folder_install(dir, cert, first, &err), 0);
	assert_int_equal(folder_new_key(dir, &third, &err), 0);
	assert_int_not_equal(EVP_PKEY_eq(first, third), 1);
	free(cert);
	EVP_PKEY_free(first);
	EVP_PKEY_free(second);
	EVP_PKEY_free(third);
	unit_folder_remove(dir);
}

/* A file that a full disk left, or that somebody made, is no key. */
static void test_damaged(void **state)
{
	char *dir = unit_folder(), *path = mem_printf("%s/node.key.new", dir), *pair = mem_printf("%s/node.pem", dir);
	EVP_PKEY *key = NULL;
	buf cert = {0};
	error err = {0};

	(void)state;
	assert_int_equal(file_write(path, "-----BEGIN", 10, 0600, &err), 0);
	assert_int_equal(folder_new_key(dir, &key, &err), 0);
	EVP_PKEY_free(key);
	assert_int_equal(folder_present(dir, &cert, &key, &err), ERROR_NOT_FOUND);
	assert_int_equal(file_write(pair, "nothing", 7, 0600, &err), 0);
	assert_int_equal(folder_present(dir, &cert, &key, &err), ERROR_INVALID);
	assert_null(key);
	free(path);
	free(pair);
	unit_folder_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_renewal),
		cmocka_unit_test(test_key_is_kept),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
