/* See copy.h. */
#include "transfer/copy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "transfer/core/http_reply.h"
#include "transfer/remove.h"

int copy_object(client *c, const location *from, const location *to, int64_t size, char etag[256], error *err)
{
	request q = REQUEST("PUT", to);
	buf source = {0};
	reply r;
	/* An empty object that stands for a folder: not all stores copy such a thing, and there is nothing in it. */
	bool marker = size == 0 && to->key[strlen(to->key) - 1] == '/';
	int code = remove_check_key(from->key, err);
	if (code == 0)
		code = remove_check_key(to->key, err);
	if (code == 0 && size > COPY_MAX)
		code = error_set(err, ERROR_LIMIT,
			"%s has %" PRId64 " bytes, and a store copies no more than 5 GiB in one piece; it can be fetched and sent", from->shown, size);
	if (code != 0)
		return code;
	buf_printf(&source, "/%s/", from->bucket);
	s3_encode(&source, from->key, true);
	q.copy_source = buf_text(&source);
	q.work = size;
	q.permission = "s3:GetObject for the source and s3:PutObject for the copy";
	if (marker) {
		q.copy_source = NULL;
		q.has_body = true;
	}
	code = client_call(c, &q, &r, NULL, err);
	if (code == 0 && marker)
		(void)snprintf(etag, 256, "%s", r.etag);
	else if (code == 0)
		code = s3_copied_parse(buf_text(&r.body), r.body.len, etag, 256, err);
	if (code != 0)
		code = error_prefix(err, "copying %s to %s", from->shown, to->shown);
	else
		atomic_fetch_add(&client_session(c)->bytes, size);
	buf_fini(&source);
	reply_fini(&r);
	return code;
}
