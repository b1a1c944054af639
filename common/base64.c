/* Base64: see base64.h for the contract. Four characters make three bytes; what is left at the end makes one, two or none. */
#include "common/base64.h"

#include <stdint.h>
#include <string.h>

#include "common/error.h"

static int digit_value(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c != '\0' ? strchr(digits, c) : NULL;
	return at != NULL ? (int)(at - digits) : -1;
}

int base64_decode(const char *text, buf *out)
{
	uint32_t bits = 0;
	unsigned held = 0; /* bits that do not make a byte yet */
	size_t digits = 0, padding = 0;
	for (const char *p = text; *p != '\0'; p++) {
		if (strchr(" \t\r\n", *p) != NULL)
			continue;
		if (*p == '=') {
			padding++;
			continue;
		}
		int value = digit_value(*p);
		if (value < 0 || padding > 0)
			return ERROR_INVALID;
		digits++;
		bits = (bits << 6 | (uint32_t)value) & 0xFFFFFF;
		held += 6;
		if (held >= 8) {
			held -= 8;
			buf_putc(out, (char)(uint8_t)(bits >> held));
		}
	}
	if (digits % 4 == 1 || padding > 2 || (padding > 0 && (digits + padding) % 4 != 0))
		return ERROR_INVALID;
	return 0;
}
