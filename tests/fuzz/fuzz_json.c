/* JSON text: what the scanner takes, cJSON takes too; what was read and printed reads back as the same. */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/json_scan.h"
#include "common/mem.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	mem_init();
	return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	cJSON *value, *again;
	error err = {0};
	int code = json_parse((const char *)data, size, SIZE_MAX, &value, &err);
	if ((json_scan((const char *)data, size, NULL) == 0) != (code == 0))
		abort();
	if (code != 0) {
		if (err.text[0] == '\0' || value != NULL)
			abort();
		return 0;
	}
	char *text = json_print(value);
	if (text == NULL || json_parse(text, strlen(text), SIZE_MAX, &again, NULL) != 0 || !json_equal(value, again))
		abort();
	char *printed = json_print(again);
	if (strcmp(text, printed) != 0)
		abort();
	free(printed);
	free(text);
	cJSON_Delete(again);
	cJSON_Delete(value);
	return 0;
}
