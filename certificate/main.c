/* ilmare-certificate: one certificate for this device, or the reason why there is none. The steps and their order are what makes it safe to be killed
 * at any moment: the new key is on the disk before it is in a request, and the old pair is in place until the new one is.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "certificate/folder.h"
#include "certificate/options.h"
#include "certificate/request.h"
#include "common/file.h"
#include "common/mem.h"

enum { STATUS_DONE, STATUS_NOT_NOW, STATUS_USAGE, STATUS_REFUSED };

static int prove(const options *o, proof *p, char **token, buf *certificate, error *err)
{
	int code;

	if (!o->renew) {
		code = file_read_secret(o->token_file, token, err);
		p->token = *token;
		if (code == 0 && !p->token[0])
			code = error_set(err, ERROR_INVALID, "%s: its first line is empty, and should be a token", o->token_file);
		return code;
	}
	code = folder_present(o->dir, certificate, &p->key, err);
	p->certificate = buf_text(certificate);
	return code;
}

/* 0, or the status. */
static int run(const options *o, error *err)
{
	proof p = {0};
	buf present = {0}, answer = {0};
	char *token = NULL, *body = NULL, *certificates = NULL;
	EVP_PKEY *key = NULL;
	int code = prove(o, &p, &token, &present, err), status = STATUS_NOT_NOW;

	if (code == 0)
		code = folder_new_key(o->dir, &key, err);
	if (code == 0 && (body = request_body(o->node, key, &p, err)) == NULL)
		code = ERROR_INTERNAL;
	if (code == 0) {
		code = request_send(o, body, &answer, err);
		if (code == ERROR_DENIED)
			status = STATUS_REFUSED;
	}
	if (code == 0 && (certificates = request_certificates(buf_text(&answer), answer.len, o->node, key, err)) == NULL)
		code = ERROR_CORRUPT;
	if (code == 0)
		code = folder_install(o->dir, certificates, key, err);
	free(certificates);
	file_secret_free(body);
	file_secret_free(token);
	buf_fini(&answer);
	buf_fini(&present);
	EVP_PKEY_free(p.key);
	EVP_PKEY_free(key);
	return code == 0 ? STATUS_DONE : status;
}

int main(int argc, char **argv)
{
	options o;
	error err = {0};
	enum options_result result;
	int status = STATUS_USAGE;

	mem_init();
	signal(SIGPIPE, SIG_IGN);
	if (options_parse(argc, argv, &o, &result, &err) == 0) {
		if (result == OPTIONS_EXIT)
			return fflush(stdout) == 0 ? STATUS_DONE : STATUS_NOT_NOW;
		status = run(&o, &err);
	}
	if (status != STATUS_DONE)
		fprintf(stderr, "ilmare-certificate: %s\n", err.text);
	return status;
}
