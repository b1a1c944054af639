/* Text of manuals: see manual.h. */
#include "common/manual.h"

#include <stdbool.h>
#include <string.h>

enum { TEXT_WIDTH = 100 };

void manual_wrapped(FILE *out, const char *prefix, const char *text)
{
	size_t column = 0;
	while (*text != '\0') {
		size_t n = strcspn(text, " \n");
		if (column > 0 && column + 1 + n > TEXT_WIDTH) {
			fputc('\n', out);
			column = 0;
		}
		if (column == 0)
			column = (size_t)fprintf(out, "%s", prefix) + 1;
		else
			column += (size_t)fprintf(out, " ");
		column += (size_t)fprintf(out, "%.*s", (int)n, text);
		text += n;
		text += strspn(text, " \n");
	}
	fputc('\n', out);
}

void manual_roff(FILE *out, const char *text)
{
	bool begin = true;
	for (const char *p = text; *p != '\0'; p++) {
		if (begin && (*p == '.' || *p == '\''))
			fputs("\\&", out);
		begin = *p == '\n';
		if (*p == '\\')
			fputs("\\e", out);
		else if (*p == '-')
			fputs("\\-", out);
		else
			fputc(*p, out);
	}
}
