/* A small strict reader of the XML that stores answer with: elements with text, no document types, so no entities but the five and characters
 * by number. Nothing is fetched and nothing expands. Pure.
 *
 * Names are given without their namespace prefix; attributes are skipped. The text of an element is what stands in it since it or the last
 * element inside it began: for an element without others inside that is its text.
 */
#ifndef TRANSFER_CORE_XML_H
#define TRANSFER_CORE_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

enum { XML_DEPTH = 16 };

enum xml_event {
	XML_OPEN,  /* an element begins: xml_is */
	XML_CLOSE, /* it ends; text holds its text */
	XML_END,   /* the document has ended, and was well-formed */
	XML_BAD
};

typedef struct xml_name {
	const char *at;
	size_t len;
} xml_name;

typedef struct xml {
	const char *p, *end;
	xml_name open[XML_DEPTH]; /* whole names, with prefix */
	int depth;                /* elements that are open; during XML_CLOSE still with the one that ends */
	bool closing, empty, begun;
	buf text;
} xml;

void xml_init(xml *x, const char *data, size_t len);
void xml_fini(xml *x);
enum xml_event xml_next(xml *x);
/* The element that begins or ends is `name`, `depth` deep (1: the root). */
bool xml_is(const xml *x, int depth, const char *name);
/* The name of the element around it is `name`. */
bool xml_in(const xml *x, const char *name);

#endif
