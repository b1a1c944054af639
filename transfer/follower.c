/* See follower.h. */
#include "transfer/follower.h"

#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/mem.h"
#include "transfer/cancel.h"
#include "transfer/core/http_reply.h"

enum { STEP = 64 * 1024 };

struct follower {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int fd;
	bool running; /* the thread was made; without it the one that waits does the work */
	bool stop;
	int64_t allowed, done;
	int errnum;
	EVP_MD_CTX *ctx;
	char *block;
};

/* Up to STEP bytes at `at`; 0, or errno, or EIO for a file that is too short. */
static int digest_step(follower *f, int64_t at, int64_t end, int64_t *now)
{
	int64_t left = end - at;
	ssize_t n;
	do
		n = pread(f->fd, f->block, left < STEP ? (size_t)left : STEP, (off_t)at);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? errno : EIO;
	if (EVP_DigestUpdate(f->ctx, f->block, (size_t)n) != 1)
		return EIO;
	*now = at + n;
	return 0;
}

static void *follow(void *arg)
{
	follower *f = arg;
	pthread_mutex_lock(&f->lock);
	while (!f->stop && f->errnum == 0) {
		if (f->done == f->allowed) {
			pthread_cond_wait(&f->changed, &f->lock);
			continue;
		}
		int64_t at = f->done, end = f->allowed, now = at;
		pthread_mutex_unlock(&f->lock);
		int errnum = digest_step(f, at, end, &now);
		pthread_mutex_lock(&f->lock);
		f->done = now;
		f->errnum = errnum;
		pthread_cond_broadcast(&f->changed);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

follower *follower_new(int fd, const char *digest)
{
	follower *f = mem_alloc(sizeof *f);
	f->fd = fd;
	f->block = mem_alloc(STEP);
	f->ctx = EVP_MD_CTX_new();
	/* MD5 tells nothing about an attacker here, and need not: it finds what was damaged on the way. */
	if (f->ctx == NULL || EVP_DigestInit_ex(f->ctx, EVP_get_digestbyname(digest), NULL) != 1)
		f->errnum = ENOTSUP;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	return f;
}

void follower_allow(follower *f, int64_t bytes)
{
	pthread_mutex_lock(&f->lock);
	f->allowed = bytes;
	if (!f->running)
		f->running = pthread_create(&f->thread, NULL, follow, f) == 0;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

/* Without a thread, or behind its end. */
static void catch_up(follower *f, int64_t bytes)
{
	while (f->errnum == 0 && f->done < bytes && !cancelled())
		f->errnum = digest_step(f, f->done, bytes, &f->done);
}

int follower_end(follower *f, int64_t bytes, char hex[FOLLOWER_HEX], const char *path, error *err)
{
	unsigned char value[EVP_MAX_MD_SIZE];
	unsigned int len = 0;
	pthread_mutex_lock(&f->lock);
	bool running = f->running;
	f->stop = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	if (running)
		pthread_join(f->thread, NULL);
	f->running = false;
	catch_up(f, bytes);
	if (f->errnum == ENOTSUP)
		return error_set(err, ERROR_UNSUPPORTED, "this machine's OpenSSL lacks a digest");
	if (f->errnum != 0)
		return error_errno(err, f->errnum, "cannot read %s", path);
	if (f->done != bytes)
		return error_set(err, ERROR_CANCELLED, "%s: stopped on request", path);
	if (EVP_DigestFinal_ex(f->ctx, value, &len) != 1)
		return error_set(err, ERROR_INTERNAL, "%s: no digest", path);
	for (unsigned int i = 0; i < len; i++)
		(void)snprintf(hex + (size_t)2 * i, 3, "%02x", value[i]);
	return 0;
}

void follower_free(follower *f)
{
	if (f == NULL)
		return;
	pthread_mutex_lock(&f->lock);
	f->stop = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	if (f->running)
		pthread_join(f->thread, NULL);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	EVP_MD_CTX_free(f->ctx);
	free(f->block);
	free(f);
}
