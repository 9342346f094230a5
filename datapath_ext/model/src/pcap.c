/* The classic capture file format, of either byte order, with Ethernet frames. */
#include <doca_log.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bytes.h"
#include "endpoint.h"

enum { FILE_HEADER = 24, RECORD_HEADER = 16, SNAP_LENGTH = 65535, LINK_ETHERNET = 1 };

static const uint32_t magic_micro = 0xa1b2c3d4, magic_nano = 0xa1b23c4d;

struct pcap_file {
    FILE *file;
    bool swapped; /* the file's numbers are in little-endian order */
    char path[256];
};

static uint32_t number(const struct pcap_file *file, const uint8_t *at)
{
    return file->swapped ? __builtin_bswap32(be32_get(at)) : be32_get(at);
}

static struct pcap_file *open_file(const char *path, const char *mode)
{
    struct pcap_file *file = calloc(1, sizeof(*file));

    if (file == NULL) {
        (void)refuse(DOCA_ERROR_NO_MEMORY, "no memory for a capture file");
        return NULL;
    }
    (void)snprintf(file->path, sizeof(file->path), "%s", path);
    file->file = fopen(path, mode);
    if (file->file == NULL) {
        (void)refuse(DOCA_ERROR_IO_FAILED, "cannot open %s: %s", path, strerror(errno));
        free(file);
        return NULL;
    }
    return file;
}

struct pcap_file *pcap_open_in(const char *path)
{
    struct pcap_file *file = open_file(path, "rb");
    uint8_t header[FILE_HEADER];

    if (file == NULL)
        return NULL;
    if (fread(header, 1, sizeof(header), file->file) != sizeof(header))
        goto refused;
    file->swapped = be32_get(header) != magic_micro && be32_get(header) != magic_nano;
    if (number(file, header) != magic_micro && number(file, header) != magic_nano)
        goto refused;
    if ((number(file, header + 20) & 0xffff) != LINK_ETHERNET)
        goto refused;
    return file;

refused:
    (void)refuse(DOCA_ERROR_IO_FAILED, "%s is no pcap file of Ethernet frames", path);
    pcap_close(file);
    return NULL;
}

struct pcap_file *pcap_open_out(const char *path)
{
    struct pcap_file *file = open_file(path, "wb");
    uint8_t header[FILE_HEADER] = {0};

    if (file == NULL)
        return NULL;
    be32_put(header, magic_nano);
    be16_put(header + 4, 2); /* version 2.4 */
    be16_put(header + 6, 4);
    be32_put(header + 16, SNAP_LENGTH);
    be32_put(header + 20, LINK_ETHERNET);
    if (fwrite(header, 1, sizeof(header), file->file) != sizeof(header)) {
        (void)refuse(DOCA_ERROR_IO_FAILED, "cannot write %s: %s", path, strerror(errno));
        pcap_close(file);
        return NULL;
    }
    return file;
}

void pcap_close(struct pcap_file *file)
{
    if (file == NULL)
        return;
    if (fclose(file->file) != 0)
        note(DOCA_LOG_LEVEL_ERROR, "closing %s: %s", file->path, strerror(errno));
    free(file);
}

bool pcap_read(struct pcap_file *file, uint8_t *frame, size_t room, size_t *length)
{
    uint8_t header[RECORD_HEADER];
    size_t got = fread(header, 1, sizeof(header), file->file);

    *length = 0;
    if (got == 0 && feof(file->file))
        return true;
    if (got == sizeof(header)) {
        *length = number(file, header + 8);
        if (*length > 0 && *length <= room && fread(frame, 1, *length, file->file) == *length)
            return true;
    }
    (void)refuse(DOCA_ERROR_IO_FAILED, "%s is damaged: a record of %zu bytes, or its end is missing", file->path,
                 *length);
    return false;
}

bool pcap_write(struct pcap_file *file, const uint8_t *frame, size_t length)
{
    uint64_t now = model_now_ns();
    uint8_t header[RECORD_HEADER];

    be32_put(header, (uint32_t)(now / 1000000000U));
    be32_put(header + 4, (uint32_t)(now % 1000000000U));
    be32_put(header + 8, (uint32_t)length);
    be32_put(header + 12, (uint32_t)length);
    return fwrite(header, 1, sizeof(header), file->file) == sizeof(header) &&
           fwrite(frame, 1, length, file->file) == length && fflush(file->file) == 0;
}
