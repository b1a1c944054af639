/* References to variables: see expand.h for the contract. One pass from left to right; what was put in is not looked at again. */
#include "cloud-agent/cluster/local/expand.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/mem.h"

/* A reference begins at `p` ("$("); returns where the text goes on. */
static const char *expand_reference(const char *p, const cJSON *vars, buf *out)
{
	const char *end = strchr(p, ')');
	if (end == NULL) {
		buf_add(out, p, 2);
		return p + 2;
	}
	char *name = mem_strndup(p + 2, (size_t)(end - p - 2));
	const char *value = cJSON_GetStringValue(json_member(vars, name));
	if (value != NULL)
		buf_puts(out, value);
	else
		buf_add(out, p, (size_t)(end - p + 1));
	free(name);
	return end + 1;
}

char *expand_text(const char *text, const cJSON *vars)
{
	buf out = {0};
	for (const char *p = text; *p != '\0';) {
		if (p[0] == '$' && p[1] == '(') {
			p = expand_reference(p, vars, &out);
		} else {
			buf_putc(&out, *p);
			p += p[0] == '$' && p[1] == '$' ? 2 : 1;
		}
	}
	return buf_detach(&out);
}
