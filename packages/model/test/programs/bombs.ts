/** Reads many request bodies at once, each of which is a few kilobytes that become more than the limit. Prints the most memory it used. */
import { zstdCompressSync } from 'node:zlib'
import { jsonBody } from '../../src/internal.ts'

const BODIES = 64
const BYTES_MAX = 16 * 1024 * 1024

const bomb = zstdCompressSync(Buffer.alloc(2 * BYTES_MAX, ' '))
const before = process.resourceUsage().maxRSS
const headers = { 'content-encoding': 'zstd' }
const read = await Promise.all(Array.from({ length: BODIES }, () => jsonBody(bomb, headers, BYTES_MAX)))
const usedMib = (process.resourceUsage().maxRSS - before) / 1024
process.stdout.write(JSON.stringify({ read: read.filter((body) => body !== undefined).length, usedMib }))
