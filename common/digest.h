/* SHA-256 (FIPS 180-4, by OpenSSL), the chain over 1 MiB blocks that names a dataset's beginning, and base32 names.
 *
 * Chain: h(0) = 32 zero bytes; h(i+1) = SHA-256(h(i) || block i); blocks are 1 MiB, the last may be short. So the digest of a prefix can
 * be continued when the file grows by re-reading at most the last short block. Pure; any thread, one owner per object.
 */
#ifndef COMMON_DIGEST_H
#define COMMON_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum { DIGEST_SIZE = 32, DIGEST_HEX_SIZE = 65, CHAIN_BLOCK = 1024 * 1024 };

typedef struct digest {
	uint8_t b[DIGEST_SIZE];
} digest;

typedef struct sha256 sha256; /* heap: holds an EVP_MD_CTX */
sha256 *sha256_new(void);
void sha256_add(sha256 *s, const void *data, size_t len);
void sha256_end(sha256 *s, digest *out); /* and begins again */
void sha256_free(sha256 *s);

void digest_of(const void *data, size_t len, digest *out);
/* Lower-case hex, NUL-terminated. */
void digest_hex(const digest *d, char out[DIGEST_HEX_SIZE]);
/* 0, or ERROR_INVALID unless `hex` is 64 lower- or upper-case hex digits. */
int digest_parse(const char *hex, digest *out);
int digest_equal(const digest *a, const digest *b); /* 1 or 0 */

typedef struct chain chain; /* the running digest of a prefix */
chain *chain_new(void);     /* at size 0 */
void chain_free(chain *c);
/* Begin at a block boundary that was reached before: `blocks` whole blocks with digest h. */
void chain_resume(chain *c, uint64_t blocks, const digest *h);
void chain_add(chain *c, const void *data, size_t len);
void chain_value(const chain *c, digest *out);                    /* of all bytes so far; the chain goes on */
void chain_boundary(const chain *c, uint64_t *blocks, digest *h); /* the last whole block: what chain_resume takes */

/* The first `chars` characters (at most 52) of lower-case RFC 4648 base32, without padding, of SHA-256(text). out holds chars + 1. */
void digest_name(const char *text, size_t chars, char *out);

#endif
