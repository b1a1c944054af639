/* RFC 3339 to and from milliseconds since 1970, without the C library's time functions: those depend on locale and zone.
 *
 * Dates are counted in the proleptic Gregorian calendar. The year begins on 1 March in the arithmetic below, so that the leap day is the
 * last of its year and the lengths of the months follow one formula.
 */
#include <stdio.h>
#include <string.h>

#include "proto/document.h"

#define DAY_MS INT64_C(86400000)
/* 0000-01-01 and 9999-12-31T23:59:59.999Z: four digits hold no other years. */
#define TIME_MIN INT64_C(-62167219200000)
#define TIME_MAX INT64_C(253402300799999)

enum { TIME_LENGTH = 24, DAYS_400_YEARS = 146097, DAYS_TO_1970 = 719468 };

/* Days from 1970-01-01 to the date; the year is at least 0. */
static int64_t days_from_date(int year, int month, int day)
{
	int shifted = month > 2 ? year + 400 : year + 399; /* never negative; 400 years are taken away again below */
	int era = shifted / 400;
	int year_of_era = shifted % 400;
	int day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return (int64_t)(era - 1) * DAYS_400_YEARS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - DAYS_TO_1970;
}

static void date_from_days(int64_t days, int *year, int *month, int *day)
{
	int64_t shifted = days + DAYS_TO_1970 + DAYS_400_YEARS;
	int era = (int)(shifted / DAYS_400_YEARS) - 1;
	int d = (int)(shifted % DAYS_400_YEARS);
	int year_of_era = (d - d / 1460 + d / 36524 - d / 146096) / 365;
	int day_of_year = d - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	int m = (5 * day_of_year + 2) / 153;

	*day = day_of_year - (153 * m + 2) / 5 + 1;
	*month = m < 10 ? m + 3 : m - 9;
	*year = era * 400 + year_of_era + (*month <= 2 ? 1 : 0);
}

void time_format(int64_t unix_ms, char out[32])
{
	int64_t t = unix_ms < TIME_MIN ? TIME_MIN : unix_ms > TIME_MAX ? TIME_MAX : unix_ms;
	int64_t days = t / DAY_MS - (t % DAY_MS < 0 ? 1 : 0);
	int ms = (int)(t - days * DAY_MS);
	char text[96]; /* room for any int, so that compilers need not know the ranges */
	int year, month, day;

	date_from_days(days, &year, &month, &day);
	(void)snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", year, month, day, ms / 3600000, ms / 60000 % 60,
		ms / 1000 % 60, ms % 1000);
	memcpy(out, text, TIME_LENGTH + 1);
}

/* Exactly `n` decimal digits; advances. -1 if there are fewer. */
static int digits(const char **p, int n)
{
	int value = 0;

	for (int i = 0; i < n; i++) {
		char c = (*p)[i];

		if (c < '0' || c > '9')
			return -1;
		value = value * 10 + (c - '0');
	}
	*p += n;
	return value;
}

static bool skip(const char **p, char c)
{
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

static int days_in_month(int year, int month)
{
	static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return month == 2 && leap ? 29 : lengths[month - 1];
}

/* "2026-11-30T04:05:06"; a leap second counts as the second after it. */
static bool parse_date_time(const char **p, int64_t *ms)
{
	int year, month, day, hour, minute, second;

	if ((year = digits(p, 4)) < 0 || !skip(p, '-') || (month = digits(p, 2)) < 1 || !skip(p, '-') || (day = digits(p, 2)) < 1)
		return false;
	if (month > 12 || day > days_in_month(year, month) || !(skip(p, 'T') || skip(p, 't')))
		return false;
	if ((hour = digits(p, 2)) < 0 || !skip(p, ':') || (minute = digits(p, 2)) < 0 || !skip(p, ':') || (second = digits(p, 2)) < 0)
		return false;
	if (hour > 23 || minute > 59 || second > 60)
		return false;
	*ms = days_from_date(year, month, day) * DAY_MS + ((int64_t)hour * 3600 + minute * 60 + second) * 1000;
	return true;
}

/* ".789" with any number of digits; what is below a millisecond is cut. */
static bool parse_fraction(const char **p, int64_t *ms)
{
	int64_t unit = 100;

	if (!skip(p, '.'))
		return true;
	if (**p < '0' || **p > '9')
		return false;
	for (; **p >= '0' && **p <= '9'; (*p)++, unit /= 10)
		*ms += (**p - '0') * unit;
	return true;
}

static bool parse_offset(const char **p, int64_t *ms)
{
	int sign = **p == '-' ? -1 : 1;
	int hour, minute;

	if (skip(p, 'Z') || skip(p, 'z'))
		return true;
	if (!skip(p, '+') && !skip(p, '-'))
		return false;
	if ((hour = digits(p, 2)) < 0 || !skip(p, ':') || (minute = digits(p, 2)) < 0 || hour > 23 || minute > 59)
		return false;
	*ms -= sign * ((int64_t)hour * 60 + minute) * 60000;
	return true;
}

int time_parse(const char *text, int64_t *unix_ms)
{
	int64_t ms = 0;

	if (!parse_date_time(&text, &ms) || !parse_fraction(&text, &ms) || !parse_offset(&text, &ms) || *text != '\0')
		return ERROR_INVALID;
	*unix_ms = ms;
	return 0;
}
