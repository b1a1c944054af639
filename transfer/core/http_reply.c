/* Status and headers: see http_reply.h for the contract. */
#include "transfer/core/http_reply.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Rows are looked at in order; the first that fits counts. */
static const struct {
	int from, to;     /* of the status */
	const char *code; /* of the store, or NULL: any */
	verdict is;
} rows[] = {
	{200, 299, NULL, {0, false, ""}},
	{304, 304, NULL, {ERROR_CHANGED, false, ""}},
	{300, 399, NULL, {ERROR_UNSUPPORTED, false, "the bucket lives elsewhere: set S3_ENDPOINT_URL and AWS_REGION to where it is"}},
	{400, 403, "RequestTimeTooSkewed", {ERROR_CLOCK, false, "set the clock of this machine"}},
	{400, 403, "RequestExpired", {ERROR_CLOCK, true, "set the clock of this machine"}},
	{400, 400, "RequestTimeout", {ERROR_TIMEOUT, true, ""}},
	{400, 400, "BadDigest", {ERROR_CORRUPT, true, "what arrived is not what was sent"}},
	{400, 400, "XAmzContentSHA256Mismatch", {ERROR_CORRUPT, true, "what arrived is not what was sent"}},
	{400, 400, "IncompleteBody", {ERROR_CORRUPT, true, "what arrived is not what was sent"}},
	{400, 400, "AuthorizationHeaderMalformed", {ERROR_DENIED, false, "set AWS_REGION to the region of the bucket"}},
	{400, 400, "InvalidAccessKeyId", {ERROR_DENIED, false, "ACCESS_KEY_ID is not known there"}},
	{400, 400, "ExpiredToken", {ERROR_DENIED, false, ""}},
	{401, 403, "SignatureDoesNotMatch",
		{ERROR_DENIED, false, "SECRET_ACCESS_KEY does not belong to ACCESS_KEY_ID, or AWS_REGION is not the store's"}},
	{401, 403, "InvalidAccessKeyId", {ERROR_DENIED, false, "ACCESS_KEY_ID is not known there"}},
	{401, 403, NULL, {ERROR_DENIED, false, "look at the permissions of the key"}},
	{404, 404, "NoSuchBucket", {ERROR_NOT_FOUND, false, "the bucket must exist"}},
	{404, 404, "NoSuchUpload", {ERROR_CONFLICT, false, "somebody else has ended this upload"}},
	{404, 404, NULL, {ERROR_NOT_FOUND, false, "there is nothing of that name"}},
	{410, 410, NULL, {ERROR_NOT_FOUND, false, "there is nothing of that name any more"}},
	{408, 408, NULL, {ERROR_TIMEOUT, true, ""}},
	{409, 409, "ConditionalRequestConflict", {ERROR_CONFLICT, true, ""}},
	{409, 409, "OperationAborted", {ERROR_CONFLICT, true, ""}},
	{409, 409, NULL, {ERROR_CONFLICT, false, ""}},
	{412, 412, NULL, {ERROR_CHANGED, false, ""}},
	{416, 416, NULL, {ERROR_CHANGED, false, ""}},
	{429, 429, NULL, {ERROR_OFFLINE, true, "the server asks to be left alone for a while"}},
	{501, 501, NULL, {ERROR_UNSUPPORTED, false, "the server does not know how to do this"}},
	{505, 505, NULL, {ERROR_UNSUPPORTED, false, ""}},
	{507, 507, NULL, {ERROR_UNSUPPORTED, false, "the server has no room for it"}},
	{500, 599, NULL, {ERROR_OFFLINE, true, "the server is in trouble; try again later"}},
};

verdict reply_judge(int status, const char *s3_code)
{
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (status >= rows[i].from && status <= rows[i].to && (rows[i].code == NULL || strcmp(rows[i].code, s3_code) == 0))
			return rows[i].is;
	}
	return (verdict){ERROR_UNSUPPORTED, false, ""};
}

/* Days since 1970 of a date of the Gregorian calendar. */
static int64_t days_of(int64_t year, int month, int day)
{
	int64_t y = month <= 2 ? year - 1 : year, era = y / 400, in_era = y - era * 400;
	int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

static bool seconds_of(int year, int month, int day, int hour, int minute, int second, int64_t *out)
{
	if (year < 1970 || year > 9999 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 ||
		minute > 59 || second < 0 || second > 60)
		return false;
	*out = days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
	return true;
}

/* A text is taken apart by a pattern: each 'D' is a digit of a number, each 'L' a letter, and all else stands for itself. What follows the pattern does not count. */
static bool apart(const char *text, const char *pattern, int *numbers, char *letters)
{
	bool inside = false;
	for (; *pattern != '\0'; pattern++, text++) {
		bool digit = *text >= '0' && *text <= '9', letter = (*text >= 'A' && *text <= 'Z') || (*text >= 'a' && *text <= 'z');
		if (*pattern == 'D' ? !digit : *pattern == 'L' ? !letter : *text != *pattern)
			return false;
		if (*pattern == 'L')
			*letters++ = *text;
		if (*pattern == 'D')
			*numbers = (inside ? *numbers * 10 : 0) + (*text - '0');
		else if (inside)
			numbers++;
		inside = *pattern == 'D';
	}
	return true;
}

bool reply_date(const char *text, int64_t *out)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	char name[4] = "";
	int n[5]; /* day, year, hour, minute, second */
	const char *comma = strchr(text, ',');
	if (comma == NULL || !apart(comma, ", DD LLL DDDD DD:DD:DD GMT", n, name))
		return false;
	const char *found = strstr(months, name);
	if (found == NULL || (found - months) % 3 != 0)
		return false;
	return seconds_of(n[1], (int)(found - months) / 3 + 1, n[0], n[2], n[3], n[4], out);
}

bool reply_date_iso(const char *text, int64_t *out)
{
	int n[6];
	return apart(text, "DDDD-DD-DDTDD:DD:DDZ", n, NULL) || apart(text, "DDDD-DD-DDTDD:DD:DD.", n, NULL) ?
		seconds_of(n[0], n[1], n[2], n[3], n[4], n[5], out) :
		false;
}

void reply_date_amz(int64_t seconds, char out[17])
{
	int64_t days = seconds / 86400, rest = seconds % 86400, z = days + 719468, era = z / 146097, in_era = z - era * 146097;
	int64_t of_era = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
	int64_t in_year = in_era - (365 * of_era + of_era / 4 - of_era / 100), shifted = (5 * in_year + 2) / 153;
	int64_t day = in_year - (153 * shifted + 2) / 5 + 1, month = shifted < 10 ? shifted + 3 : shifted - 9;
	int64_t year = of_era + era * 400 + (month <= 2);
	(void)snprintf(out, 17, "%04u%02u%02uT%02u%02u%02uZ", (unsigned)year % 10000U, (unsigned)month % 100U, (unsigned)day % 100U,
		(unsigned)(rest / 3600) % 100U, (unsigned)(rest / 60 % 60) % 100U, (unsigned)(rest % 60) % 100U);
}

/* Digits alone, at most 18 of them. */
static const char *digits(const char *text, int64_t *out)
{
	int64_t n = 0;
	size_t len = strspn(text, "0123456789");
	if (len == 0 || len > 18)
		return NULL;
	for (size_t i = 0; i < len; i++)
		n = n * 10 + (text[i] - '0');
	*out = n;
	return text + len;
}

int64_t reply_retry_after(const char *text, int64_t now)
{
	const int64_t most = 86400;
	int64_t seconds;
	const char *end = digits(text, &seconds);
	if (end != NULL && *end == '\0')
		return seconds < most ? seconds : most;
	if (end != NULL || !reply_date(text, &seconds))
		return -1;
	seconds -= now;
	return seconds < 0 ? 0 : seconds < most ? seconds : most;
}

bool reply_content_range(const char *text, int64_t *from, int64_t *total)
{
	int64_t last = -1;
	const char *p = text;
	if (strncmp(p, "bytes ", 6) != 0)
		return false;
	p += 6;
	*from = -1;
	*total = -1;
	if (*p == '*') {
		p++;
	} else {
		p = digits(p, from);
		if (p == NULL || *p++ != '-')
			return false;
		p = digits(p, &last);
		if (p == NULL || last < *from)
			return false;
	}
	if (*p++ != '/')
		return false;
	if (strcmp(p, "*") == 0)
		return *from >= 0;
	p = digits(p, total);
	return p != NULL && *p == '\0' && (*from < 0 || last < *total);
}

bool reply_length(const char *text, int64_t *out)
{
	const char *end = digits(text, out);
	return end != NULL && *end == '\0';
}

bool reply_etag_strong(const char *etag)
{
	size_t len = strlen(etag);
	return len > 2 && etag[0] == '"' && etag[len - 1] == '"' && memchr(etag + 1, '"', len - 2) == NULL;
}

bool reply_etag_md5(const char *etag, char out[33])
{
	if (strlen(etag) != 34 || etag[0] != '"' || etag[33] != '"' || strspn(etag + 1, "0123456789abcdef") != 32)
		return false;
	memcpy(out, etag + 1, 32);
	out[32] = '\0';
	return true;
}
