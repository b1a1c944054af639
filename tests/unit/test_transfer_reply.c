/* What servers answer: XML of stores, statuses, dates, ranges. */
#include "tests/unit/unit.h"

#include "transfer/core/http_reply.h"
#include "transfer/core/s3_reply.h"
#include "transfer/core/xml.h"

/* ---- XML ---- */

static char *events(const char *data)
{
	xml x;
	buf out = {0};
	enum xml_event e;
	xml_init(&x, data, strlen(data));
	while ((e = xml_next(&x)) == XML_OPEN || e == XML_CLOSE) {
		const xml_name *n = &x.open[x.depth - 1];
		if (e == XML_OPEN)
			buf_printf(&out, "<%.*s", (int)n->len, n->at);
		else
			buf_printf(&out, "%s>", buf_text(&x.text));
	}
	buf_puts(&out, e == XML_END ? "." : "!");
	xml_fini(&x);
	return buf_detach(&out);
}

static void check_events(const char *data, const char *expected)
{
	char *got = events(data);
	if (strcmp(got, expected) != 0)
		fail_msg("%s: %s", data, got);
	free(got);
}

static void well_formed(void **state)
{
	(void)state;
	check_events("<a/>", "<a>.");
	check_events("\xEF\xBB\xBF<?xml version=\"1.0\"?>\n<!-- c --><a x='>' y=\"<\"><b>t</b ><c/></a>\n", "<a<bt><c>>.");
	check_events("<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#xfc;</a>", "<a<>&\"'ABü>.");
	check_events("<a><![CDATA[<x>&]]></a>", "<a<x>&>.");
	check_events("<n:a xmlns:n='u'>x</n:a>", "<n:ax>.");
}

static void ill_formed(void **state)
{
	static const char *const bad[] = {"", " ", "x", "<a>", "</a>", "<a></b>", "<a/><b/>", "<a/>x", "<a", "<a x>", "<a x=1>", "<a x='>",
		"<a>&x;</a>", "<a>&#0;</a>", "<a>&#xD800;</a>", "<a>&#1114112;</a>", "<a>&</a>", "<!DOCTYPE a><a/>",
		"<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", "<a><!--</a>", "<a><![CDATA[</a>", "<a><b></a></b>", "< a/>", "<a>&#xx;</a>",
		"<a>&#99999999999999999999;</a>"};
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		char *got = events(bad[i]);
		if (got[strlen(got) - 1] != '!')
			fail_msg("accepted: %s", bad[i]);
		free(got);
	}
	buf deep = {0};
	for (int i = 0; i <= XML_DEPTH; i++)
		buf_puts(&deep, "<a>");
	char *got = events(buf_text(&deep));
	assert_int_equal(got[strlen(got) - 1], '!');
	free(got);
	buf_fini(&deep);
}

/* ---- answers of stores ---- */

static void errors(void **state)
{
	static const char denied[] =
		"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>No\n way</Message><Region>eu</Region></Error>";
	s3_error e;
	(void)state;
	assert_true(s3_error_parse(denied, strlen(denied), &e));
	assert_string_equal(e.code, "AccessDenied");
	assert_string_equal(e.message, "No  way");
	assert_string_equal(e.region, "eu");
	assert_false(s3_error_parse("<Error/>", 8, &e));
	assert_false(s3_error_parse("<html><Code>x</Code></html>", 27, &e));
	assert_false(s3_error_parse("", 0, &e));
	/* What came before it broke off is enough to say. */
	assert_true(s3_error_parse(denied, 60, &e));
}

#define PAGE(inside) "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>" inside "</ListBucketResult>"

static int page(const char *text, s3_page *out)
{
	return s3_page_parse(text, strlen(text), out, NULL);
}

static void pages(void **state)
{
	s3_page p;
	(void)state;
	assert_int_equal(page(PAGE("<IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;</NextContinuationToken><Contents><Key>a+b%2B</"
							   "Key><Size>5</Size>"
							   "<Owner><ID>x</ID></Owner></Contents><Contents><Size>0</Size><Key>c/</Key></Contents>"),
						 &p),
		0);
	assert_int_equal(p.n, 2);
	assert_string_equal(p.items[0].key, "a+b%2B");
	assert_int_equal(p.items[0].size, 5);
	assert_string_equal(p.items[1].key, "c/");
	assert_string_equal(p.next, "t&");
	s3_page_fini(&p);
	assert_int_equal(
		page(PAGE("<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated><Contents><Key>a+b%2B</Key><Size>5</Size></Contents>"),
			&p),
		0);
	assert_string_equal(p.items[0].key, "a b+");
	assert_null(p.next);
	s3_page_fini(&p);
	assert_int_equal(
		page(PAGE("<Prefix>a/</Prefix><EncodingType>url</EncodingType><Contents><Key>a/b</Key><ETag>&quot;x&quot;</ETag><Size>5</Size>"
				  "</Contents><CommonPrefixes><Prefix>a/c+%2B/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>a/d/</Prefix></"
				  "CommonPrefixes>"),
			&p),
		0);
	assert_int_equal(p.n, 1);
	assert_string_equal(p.items[0].etag, "\"x\"");
	assert_int_equal(p.n_folders, 2);
	assert_string_equal(p.folders[0], "a/c +/");
	assert_string_equal(p.folders[1], "a/d/");
	s3_page_fini(&p);
	assert_int_equal(page(PAGE(""), &p), 0);
	assert_int_equal(p.n, 0);
	s3_page_fini(&p);
}

static void pages_refused(void **state)
{
	static const char *const bad[] = {PAGE("<IsTruncated>true</IsTruncated>"), PAGE("<Contents><Key>a</Key></Contents>"),
		PAGE("<Contents><Size>1</Size></Contents>"), PAGE("<Contents><Key>a</Key><Size>-1</Size></Contents>"),
		PAGE("<Contents><Key></Key><Size>1</Size></Contents>"), PAGE("<CommonPrefixes><Prefix/></CommonPrefixes>"),
		PAGE("<EncodingType>url</EncodingType><CommonPrefixes><Prefix>%2</Prefix></CommonPrefixes>"),
		PAGE("<EncodingType>url</EncodingType><Contents><Key>%</Key><Size>1</Size></Contents>"), "<html/>", "<ListBucketResult>", "{}", ""};
	s3_page p;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (page(bad[i], &p) != ERROR_CORRUPT)
			fail_msg("accepted: %s", bad[i]);
		s3_page_fini(&p);
	}
	buf b = {0};
	buf_puts(&b, "<ListBucketResult>");
	for (int i = 0; i <= S3_PAGE_ITEMS; i++)
		buf_puts(&b, "<Contents><Key>a</Key><Size>1</Size></Contents>");
	buf_puts(&b, "</ListBucketResult>");
	assert_int_equal(page(buf_text(&b), &p), ERROR_CORRUPT);
	s3_page_fini(&p);
	buf_fini(&b);
}

#define REMOVED(inside) "<DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" inside "</DeleteResult>"

static int removed(const char *text, char **key, s3_error *why)
{
	return s3_removed_parse(text, strlen(text), key, why, NULL);
}

static void removals(void **state)
{
	static const char *const bad[] = {"", "<html/>", "<DeleteResult>", "<Error><Code>InternalError</Code></Error>"};
	s3_error why;
	char *key;
	(void)state;
	assert_int_equal(removed(REMOVED(""), &key, &why), 0);
	assert_null(key);
	assert_int_equal(removed(REMOVED("<Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>NoSuchKey</Code></Error>"), &key, &why), 0);
	assert_null(key);
	assert_int_equal(removed(REMOVED("<Error><Key>b</Key><Code>NoSuchKey</Code></Error><Error><Key>c&amp;</Key><Code>AccessDenied</Code>"
									 "<Message>no</Message></Error><Error><Key>d</Key><Code>InternalError</Code></Error>"),
						 &key, &why),
		0);
	assert_string_equal(key, "c&");
	assert_string_equal(why.code, "AccessDenied");
	assert_string_equal(why.message, "no");
	free(key);
	/* What does not say of which, or why, is no success. */
	assert_int_equal(removed(REMOVED("<Error/>"), &key, &why), 0);
	assert_string_equal(key, "");
	free(key);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(removed(bad[i], &key, &why), ERROR_CORRUPT);
		assert_null(key);
	}
}

static void copies(void **state)
{
	static const char done[] = "<CopyObjectResult><ETag>&quot;x&quot;</ETag></CopyObjectResult>",
					  failed[] = "<Error><Code>x</Code></Error>";
	char etag[32];
	(void)state;
	assert_int_equal(s3_copied_parse(done, strlen(done), etag, sizeof etag, NULL), 0);
	assert_string_equal(etag, "\"x\"");
	assert_int_equal(s3_copied_parse(done, strlen(done) - 1, etag, sizeof etag, NULL), ERROR_CORRUPT);
	assert_int_equal(s3_copied_parse(failed, strlen(failed), etag, sizeof etag, NULL), ERROR_CORRUPT);
}

static void keys_in_xml(void **state)
{
	static const char *const bad[] = {"", " a", "a ", "a\nb", "\x7F", "\xE9", "\xEF\xBF\xBE", "a\xEF\xBF\xBF", "\xED\xA0\x80"};
	buf b = {0};
	(void)state;
	assert_true(s3_key_fits_xml("a b/<\"&'>\xC3\xBC"));
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(s3_key_fits_xml(bad[i]));
	s3_put_xml(&b, "a<\"&'>b");
	assert_string_equal(buf_text(&b), "a&#60;&#34;&#38;&#39;&#62;b");
	buf_fini(&b);
}

static void uploads(void **state)
{
	static const char begun[] =
		"<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>u-1</UploadId></InitiateMultipartUploadResult>";
	static const char done[] = "<CompleteMultipartUploadResult><ETag>&quot;x-2&quot;</ETag></CompleteMultipartUploadResult>";
	static const char failed[] = "<Error><Code>InternalError</Code></Error>";
	static const char list[] =
		"<ListMultipartUploadsResult><Upload><Key>k</Key><UploadId>u</UploadId><Initiated>2026-11-30T04:00:00.000Z</Initiated>"
		"<Owner><ID>x</ID></Owner></Upload></ListMultipartUploadsResult>";
	char *id, etag[32];
	s3_uploads u;
	(void)state;
	assert_int_equal(s3_upload_parse(begun, strlen(begun), &id, NULL), 0);
	assert_string_equal(id, "u-1");
	free(id);
	assert_int_equal(s3_upload_parse(begun, 80, &id, NULL), ERROR_CORRUPT);
	assert_null(id);
	assert_int_equal(s3_completed_parse(done, strlen(done), etag, sizeof etag, NULL), 0);
	assert_string_equal(etag, "\"x-2\"");
	assert_int_equal(s3_completed_parse(failed, strlen(failed), etag, sizeof etag, NULL), ERROR_CORRUPT);
	assert_int_equal(s3_completed_parse("", 0, etag, sizeof etag, NULL), ERROR_CORRUPT);
	assert_int_equal(s3_uploads_parse(list, strlen(list), &u, NULL), 0);
	assert_int_equal(u.n, 1);
	assert_string_equal(u.items[0].begun, "2026-11-30T04:00:00.000Z");
	s3_uploads_fini(&u);
}

/* ---- statuses and headers ---- */

static void verdicts(void **state)
{
	static const int again[] = {408, 429, 500, 502, 503, 504}, never[] = {400, 401, 403, 404, 405, 409, 410, 412, 416, 301, 307, 501};
	(void)state;
	for (size_t i = 0; i < sizeof again / sizeof again[0]; i++)
		assert_true(reply_judge(again[i], "").retry);
	for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
		verdict v = reply_judge(never[i], "");
		assert_false(v.retry);
		assert_true(v.code < 0);
	}
	assert_int_equal(reply_judge(206, "").code, 0);
	assert_int_equal(reply_judge(403, "RequestTimeTooSkewed").code, ERROR_CLOCK);
	assert_int_equal(reply_judge(403, "AccessDenied").code, ERROR_DENIED);
	assert_int_equal(reply_judge(404, "NoSuchKey").code, ERROR_NOT_FOUND);
	assert_int_equal(reply_judge(412, "").code, ERROR_CHANGED);
	assert_true(reply_judge(400, "RequestTimeout").retry);
	assert_true(reply_judge(400, "BadDigest").retry);
	assert_int_equal(reply_judge(999, "").code, ERROR_UNSUPPORTED);
}

static void dates(void **state)
{
	static const char *const bad[] = {"", "Sun, 06 Nov", "Sun, 06 Xov 1994 08:49:37 GMT", "Sun, 06 anF 1994 08:49:37 GMT",
		"Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1960 08:49:37 GMT"};
	int64_t t;
	char text[17];
	(void)state;
	assert_true(reply_date("Sun, 06 Nov 1994 08:49:37 GMT", &t));
	assert_int_equal(t, 784111777);
	reply_date_amz(t, text);
	assert_string_equal(text, "19941106T084937Z");
	assert_true(reply_date("Thu, 29 Feb 2024 23:59:59 GMT", &t));
	reply_date_amz(t, text);
	assert_string_equal(text, "20240229T235959Z");
	reply_date_amz(0, text);
	assert_string_equal(text, "19700101T000000Z");
	assert_true(reply_date_iso("2024-02-29T23:59:59.000Z", &t));
	assert_int_equal(t, 1709251199);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(reply_date(bad[i], &t));
	assert_false(reply_date_iso("2024-02-30", &t));
}

static void retry_after(void **state)
{
	(void)state;
	assert_int_equal(reply_retry_after("7", 0), 7);
	assert_int_equal(reply_retry_after("99999999", 0), 86400);
	assert_int_equal(reply_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", 784111770), 7);
	assert_int_equal(reply_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", 784111790), 0);
	assert_int_equal(reply_retry_after("soon", 0), -1);
	assert_int_equal(reply_retry_after("-5", 0), -1);
	assert_int_equal(reply_retry_after("7x", 0), -1);
}

static void ranges(void **state)
{
	static const char *const bad[] = {"", "bytes", "bytes 5", "bytes 5-", "bytes 5-4/10", "bytes 5-10/10", "bytes 5-9/x", "bytes */*",
		"items 0-1/2", "bytes 5-9/10x", "bytes 99999999999999999999-1/2"};
	int64_t from, total;
	(void)state;
	assert_true(reply_content_range("bytes 5-9/10", &from, &total));
	assert_int_equal(from, 5);
	assert_int_equal(total, 10);
	assert_true(reply_content_range("bytes 5-9/*", &from, &total));
	assert_int_equal(total, -1);
	assert_true(reply_content_range("bytes */10", &from, &total));
	assert_int_equal(from, -1);
	assert_int_equal(total, 10);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (reply_content_range(bad[i], &from, &total))
			fail_msg("accepted: %s", bad[i]);
	}
}

static void etags(void **state)
{
	char md5[33];
	(void)state;
	assert_true(reply_etag_strong("\"x\""));
	assert_false(reply_etag_strong("W/\"x\""));
	assert_false(reply_etag_strong("x"));
	assert_false(reply_etag_strong("\"\""));
	assert_false(reply_etag_strong("\"a\"b\""));
	assert_true(reply_etag_md5("\"d41d8cd98f00b204e9800998ecf8427e\"", md5));
	assert_string_equal(md5, "d41d8cd98f00b204e9800998ecf8427e");
	assert_false(reply_etag_md5("\"d41d8cd98f00b204e9800998ecf8427e-2\"", md5));
	assert_false(reply_etag_md5("\"D41D8CD98F00B204E9800998ECF8427E\"", md5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(well_formed),
		cmocka_unit_test(ill_formed),
		cmocka_unit_test(errors),
		cmocka_unit_test(pages),
		cmocka_unit_test(pages_refused),
		cmocka_unit_test(removals),
		cmocka_unit_test(copies),
		cmocka_unit_test(keys_in_xml),
		cmocka_unit_test(uploads),
		cmocka_unit_test(verdicts),
		cmocka_unit_test(dates),
		cmocka_unit_test(retry_after),
		cmocka_unit_test(ranges),
		cmocka_unit_test(etags),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
