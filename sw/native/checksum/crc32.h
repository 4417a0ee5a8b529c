/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32 of messages. */
#ifndef INCEPTIONN_NATIVE_CRC32_H
#define INCEPTIONN_NATIVE_CRC32_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CRC-32 as in IEEE 802.3 and zlib, of `bytes` that follow others of which `crc` is the CRC. */
bool crc32_supported(void);
void crc32_prepare(void);
uint32_t crc32_update(uint32_t crc, const uint8_t *bytes, size_t size);

#endif
