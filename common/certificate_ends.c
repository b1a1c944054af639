/* See certificate_ends.h. A file is known again by what stat says of it; its time of change of the inode cannot be set back by anybody. The file may
 * hold a key as well, so what was read is overwritten.
 */
#include "common/certificate_ends.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/metrics.h"
#include "common/pki.h"

enum { ENDS_MAX = 4, AUTHORITIES_MAX = 1024 };

typedef struct watched {
	enum certificate_kind kind;
	char *file;
	metric *metric;
	struct stat seen; /* all 0: none */
} watched;

struct certificate_ends {
	watched all[ENDS_MAX];
	size_t n;
};

static int64_t own_end(const char *pem, size_t len)
{
	X509 *cert = pki_certificate_parse(pem, len);
	int64_t ends = cert != NULL ? pki_time(X509_get0_notAfter(cert)) / 1000 : 0;

	X509_free(cert);
	return ends;
}

static int64_t last_end(const char *pem, size_t len)
{
	X509 **all = mem_alloc(AUTHORITIES_MAX * sizeof all[0]);
	size_t n = pki_certificates_parse(pem, len, all, AUTHORITIES_MAX);
	int64_t last = 0;

	for (size_t i = 0; n != SIZE_MAX && i < n; i++) {
		int64_t ends = pki_time(X509_get0_notAfter(all[i])) / 1000;

		last = ends > last ? ends : last;
		X509_free(all[i]);
	}
	free(all);
	return last;
}

int64_t certificate_end(enum certificate_kind kind, const char *pem, size_t len)
{
	return kind == CERTIFICATE_OWN ? own_end(pem, len) : last_end(pem, len);
}

certificate_ends *certificate_ends_new(void)
{
	return mem_alloc(sizeof(certificate_ends));
}

void certificate_ends_add(certificate_ends *c, enum certificate_kind kind, const char *label, const char *file)
{
	metric *m;

	if (file == NULL || file[0] == '\0' || c->n == ENDS_MAX)
		return;
	m = metric_new(METRIC_GAUGE, "ilmare_certificate_expiry_timestamp_seconds", label,
		"When the certificate in the file ends, in seconds since 1970; no value where there is none.");
	metric_unset(m);
	c->all[c->n++] = (watched){.kind = kind, .file = mem_strdup(file), .metric = m};
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
		a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* A pipe is not opened: nobody waits for somebody to write to it. One room for all of the file, so that no copy of a key is left as it grows. */
static void look(watched *w)
{
	struct stat now = {0};
	bool usable = stat(w->file, &now) == 0 && S_ISREG(now.st_mode);
	buf text = {0};
	int64_t ends = 0;

	if (usable && is_same(&now, &w->seen))
		return;
	if (usable) {
		buf_reserve(&text, PKI_FILE_MAX + 1);
		usable = file_read(w->file, PKI_FILE_MAX, &text, NULL) == 0;
		ends = usable ? certificate_end(w->kind, buf_text(&text), text.len) : 0;
		buf_wipe(&text);
	}
	w->seen = usable ? now : (struct stat){0};
	if (ends > 0)
		metric_set(w->metric, ends);
	else
		metric_unset(w->metric);
}

void certificate_ends_set(certificate_ends *c)
{
	for (size_t i = 0; i < c->n; i++)
		look(&c->all[i]);
}

void certificate_ends_free(certificate_ends *c)
{
	if (c == NULL)
		return;
	for (size_t i = 0; i < c->n; i++)
		free(c->all[i].file);
	free(c);
}
