/* Writing members: see document_internal.h. */
#include <string.h>

#include "common/buf.h"
#include "common/json_scan.h"
#include "proto/document_internal.h"

cJSON *write__begin(const char *ts)
{
	cJSON *root = cJSON_CreateObject();

	json_put_int(root, "v", DOCUMENT_VERSION);
	json_put_string(root, "ts", ts);
	return root;
}

char *write__end(cJSON *root)
{
	char *text = json_print(root);

	cJSON_Delete(root);
	return text;
}

void write__copy(cJSON *obj, const char *name, const cJSON *value)
{
	if (value != NULL)
		json_put(obj, name, cJSON_Duplicate(value, 1));
}

void write__strings(cJSON *obj, const char *name, const char **strings, size_t n)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < n; i++)
		cJSON_AddItemToArray(array, cJSON_CreateString(strings[i]));
	json_put(obj, name, array);
}

void write__prose(cJSON *obj, const char *name, const char *text, size_t max)
{
	buf b = {0};

	if (text == NULL)
		return;
	while (*text != '\0') {
		size_t len = json_utf8_length(text, strnlen(text, 4));

		if (b.len + (len == 0 ? 1 : len) > max)
			break;
		if (len == 0) {
			buf_putc(&b, '?');
			text++;
		} else {
			buf_add(&b, text, len);
			text += len;
		}
	}
	json_put_string(obj, name, buf_text(&b));
	buf_fini(&b);
}
