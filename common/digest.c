/* SHA-256 by OpenSSL, the chain over a file's blocks, and names made from digests: see digest.h for the contract.
 *
 * A chain keeps the digest of all whole blocks and a running SHA-256 of (that digest, the bytes of the block that is not whole yet).
 * OpenSSL fails here only without memory or without its own configuration; neither leaves anything to go on with, so the process ends.
 */
#include "common/digest.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "common/error.h"
#include "common/mem.h"

struct sha256 {
	EVP_MD_CTX *ctx;
};

static void must(int ok)
{
	if (ok != 1) {
		fputs("SHA-256 is not available: OpenSSL refuses it or is out of memory; ending\n", stderr);
		_Exit(EXIT_FAILURE); /* other threads may be at work: no exit handlers */
	}
}

/* Asking OpenSSL for it costs as much as a short digest: once a process. */
static EVP_MD *fetched;
static once_flag fetched_once = ONCE_FLAG_INIT;

static void fetch(void)
{
	fetched = EVP_MD_fetch(NULL, "SHA256", NULL);
}

static const EVP_MD *algorithm(void)
{
	call_once(&fetched_once, fetch);
	must(fetched != NULL);
	return fetched;
}

sha256 *sha256_new(void)
{
	sha256 *s = mem_alloc(sizeof *s);
	s->ctx = EVP_MD_CTX_new();
	must(s->ctx != NULL);
	must(EVP_DigestInit_ex(s->ctx, algorithm(), NULL));
	return s;
}

void sha256_add(sha256 *s, const void *data, size_t len)
{
	must(EVP_DigestUpdate(s->ctx, data, len));
}

void sha256_end(sha256 *s, digest *out)
{
	must(EVP_DigestFinal_ex(s->ctx, out->b, NULL));
	must(EVP_DigestInit_ex(s->ctx, algorithm(), NULL));
}

void sha256_free(sha256 *s)
{
	if (s == NULL)
		return;
	EVP_MD_CTX_free(s->ctx);
	free(s);
}

void digest_of(const void *data, size_t len, digest *out)
{
	must(EVP_Digest(data, len, out->b, NULL, algorithm(), NULL));
}

void digest_hex(const digest *d, char out[DIGEST_HEX_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	for (size_t i = 0; i < DIGEST_SIZE; i++) {
		out[2 * i] = digits[d->b[i] >> 4];
		out[2 * i + 1] = digits[d->b[i] & 15];
	}
	out[DIGEST_HEX_SIZE - 1] = '\0';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int digest_parse(const char *hex, digest *out)
{
	digest d;
	if (hex == NULL || strnlen(hex, DIGEST_HEX_SIZE) != DIGEST_HEX_SIZE - 1)
		return ERROR_INVALID;
	for (size_t i = 0; i < DIGEST_SIZE; i++) {
		int high = hex_digit(hex[2 * i]);
		int low = hex_digit(hex[2 * i + 1]);
		if (high < 0 || low < 0)
			return ERROR_INVALID;
		d.b[i] = (uint8_t)(high << 4 | low);
	}
	*out = d;
	return 0;
}

int digest_equal(const digest *a, const digest *b)
{
	return memcmp(a->b, b->b, DIGEST_SIZE) == 0;
}

struct chain {
	digest h; /* of `blocks` whole blocks */
	uint64_t blocks;
	size_t part;     /* bytes of the next block, less than CHAIN_BLOCK */
	sha256 *running; /* has h and those bytes; nothing while part is 0 */
	EVP_MD_CTX *copy;
};

chain *chain_new(void)
{
	chain *c = mem_alloc(sizeof *c);
	c->running = sha256_new();
	c->copy = EVP_MD_CTX_new();
	must(c->copy != NULL);
	return c;
}

void chain_free(chain *c)
{
	if (c == NULL)
		return;
	sha256_free(c->running);
	EVP_MD_CTX_free(c->copy);
	free(c);
}

void chain_resume(chain *c, uint64_t blocks, const digest *h)
{
	digest dropped;
	if (c->part > 0)
		sha256_end(c->running, &dropped);
	c->h = *h;
	c->blocks = blocks;
	c->part = 0;
}

void chain_add(chain *c, const void *data, size_t len)
{
	const uint8_t *p = data;
	while (len > 0) {
		size_t n = CHAIN_BLOCK - c->part;
		if (n > len)
			n = len;
		if (c->part == 0)
			sha256_add(c->running, c->h.b, DIGEST_SIZE);
		sha256_add(c->running, p, n);
		c->part += n;
		p += n;
		len -= n;
		if (c->part == CHAIN_BLOCK) {
			sha256_end(c->running, &c->h);
			c->blocks++;
			c->part = 0;
		}
	}
}

void chain_value(const chain *c, digest *out)
{
	if (c->part == 0) {
		*out = c->h;
		return;
	}
	must(EVP_MD_CTX_copy_ex(c->copy, c->running->ctx));
	must(EVP_DigestFinal_ex(c->copy, out->b, NULL));
}

void chain_boundary(const chain *c, uint64_t *blocks, digest *h)
{
	*blocks = c->blocks;
	*h = c->h;
}

void digest_name(const char *text, size_t chars, char *out)
{
	enum { BASE32_CHARS = 52 };
	static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
	digest d;
	digest_of(text, strlen(text), &d);
	if (chars > BASE32_CHARS)
		chars = BASE32_CHARS;
	for (size_t i = 0; i < chars; i++) {
		size_t bit = i * 5;
		/* Sixteen bits that hold the five wanted ones; the last character has only one bit of the digest, then zeros. */
		unsigned two = (unsigned)d.b[bit / 8] << 8;
		if (bit / 8 + 1 < DIGEST_SIZE)
			two |= d.b[bit / 8 + 1];
		out[i] = alphabet[two >> (11 - bit % 8) & 31];
	}
	out[chars] = '\0';
}
