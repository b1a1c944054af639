/* See store.h. */
#include "transfer/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static int not_wanted(void *ctx, const reply *r, error *err)
{
	(void)ctx;
	(void)r;
	return error_set(err, ERROR_INTERNAL, "refused once, and then not");
}

static int no_data(void *ctx, const char *data, size_t len, error *err)
{
	(void)ctx;
	(void)data;
	(void)len;
	(void)err;
	return ERROR_INTERNAL;
}

/* The answer to HEAD has no body, so it does not tell why. */
static int ask_why(client *c, const location *of, int code, error *err)
{
	request q = REQUEST("GET", of);
	reply r;
	error why = {0};
	bool retry;
	q.permission = "s3:GetObject";
	q.on_head = not_wanted;
	q.on_data = no_data;
	int again = client_once(c, &q, &r, &retry, &why);
	if (r.status / 100 == 4 && r.error.code[0] != '\0')
		code = error_set(err, again, "%s", why.text);
	reply_fini(&r);
	return code;
}

int store_head(client *c, const location *of, const char *if_none_match, object_head *out, error *err)
{
	request q = REQUEST("HEAD", of);
	reply r;
	q.if_none_match = if_none_match;
	q.permission = "s3:GetObject";
	int code = client_call(c, &q, &r, NULL, err);
	*out = (object_head){.changed = r.status != 304, .size = -1};
	if (r.status == 304 && if_none_match != NULL) {
		code = 0;
	} else if (code == 0) {
		out->size = r.length;
		out->not_md5 = r.not_md5;
		(void)snprintf(out->etag, sizeof out->etag, "%s", r.etag);
		(void)snprintf(out->modified, sizeof out->modified, "%s", r.modified);
		/* Some servers do not look at If-None-Match. */
		out->changed = if_none_match == NULL || strcmp(if_none_match, r.etag) != 0;
		if (of->kind == LOCATION_S3 && !r.of_store)
			code = error_set(err, ERROR_CORRUPT,
				"%s: the answer has neither an ETag nor another header of a store, so it does not come from a store for S3", of->shown);
	}
	if (of->kind == LOCATION_S3 && (r.status == 400 || r.status == 403 || r.status == 301))
		code = ask_why(c, of, code, err);
	reply_fini(&r);
	return code;
}

void listing_init(listing *l, client *c, const location *of, const char *prefix)
{
	*l = (listing){.c = c, .of = of, .prefix = mem_strdup(prefix)};
}

void listing_fini(listing *l)
{
	s3_page_fini(&l->page);
	free(l->prefix);
}

/* What is done with a list may be a removal: nothing beside the prefix is ever taken from a server's word. */
static bool is_below(const listing *l)
{
	size_t len = strlen(l->prefix);
	for (size_t i = 0; i < l->page.n; i++) {
		if (strncmp(l->page.items[i].key, l->prefix, len) != 0)
			return false;
	}
	for (size_t i = 0; i < l->page.n_folders; i++) {
		if (strncmp(l->page.folders[i], l->prefix, len) != 0)
			return false;
	}
	return true;
}

static int ask_page(listing *l, const char *token, error *err)
{
	s3_query query[S3_QUERY_MAX] = {{"list-type", "2"}, {"encoding-type", "url"}, {"max-keys", "1000"}, {"prefix", l->prefix}};
	request q = REQUEST("GET", l->of);
	reply r;
	q.n_query = 4;
	if (l->flat)
		query[q.n_query++] = (s3_query){"delimiter", "/"};
	if (token != NULL)
		query[q.n_query++] = (s3_query){"continuation-token", token};
	q.bucket = true;
	q.query = query;
	q.body_max = S3_PAGE_MAX;
	q.permission = "s3:ListBucket";
	int code = client_call(l->c, &q, &r, NULL, err);
	if (code == 0 && s3_page_parse(buf_text(&r.body), r.body.len, &l->page, err) != 0)
		code = error_prefix(err, "%s", l->of->shown);
	reply_fini(&r);
	return code;
}

int listing_page(listing *l, error *err)
{
	if (l->begun && l->page.next == NULL)
		return 0;
	char *token = l->page.next;
	l->page.next = NULL;
	s3_page_fini(&l->page);
	l->at = 0;
	l->begun = true;
	int code = ask_page(l, token, err);
	/* A server that gives the same page again and again would never end. */
	if (code == 0 && token != NULL && l->page.next != NULL && strcmp(token, l->page.next) == 0)
		code = error_set(err, ERROR_CORRUPT, "%s: the list of objects does not end", l->of->shown);
	if (code == 0 && !is_below(l))
		code = error_set(err, ERROR_CORRUPT, "%s: the list has a key that does not begin as it was asked for", l->of->shown);
	free(token);
	return code == 0 ? 1 : code;
}

const s3_object *listing_next(listing *l, int *code, error *err)
{
	*code = 0;
	while (l->at == l->page.n) {
		int got = listing_page(l, err);
		if (got <= 0) {
			*code = got;
			return NULL;
		}
	}
	return &l->page.items[l->at++];
}
