/** Reads a config file, and only a regular file of bounded size: a clone may contain a link to /dev/zero, or a pipe. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { Fault, isFault } from '@breakfall/faults'
import { errorCode } from '@breakfall/faults/internal'

const CONFIG_BYTES_MAX = 1024 * 1024

/** Undefined if there is no such file. */
export function readBounded(file: string): string | undefined {
  try {
    const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK) // opening a pipe would block
    try {
      if (!fstatSync(fd).isFile()) throw refusal(file, 'is not a file')
      const bytes = Buffer.alloc(CONFIG_BYTES_MAX + 1)
      let length = 0
      for (let read = -1; read !== 0 && length < bytes.length; length += read)
        read = readSync(fd, bytes, { offset: length })
      if (length > CONFIG_BYTES_MAX) throw refusal(file, 'is longer than 1 MiB')
      return bytes.toString('utf8', 0, length)
    } finally {
      closeSync(fd)
    }
  } catch (cause) {
    if (isFault(cause)) throw cause
    const code = errorCode(cause) ?? 'unknown error'
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw refusal(file, `cannot be read (${code}).${HINTS[code] ?? ''}`, cause)
  }
}

const HINTS: Readonly<Record<string, string>> = {
  EACCES: ' Make it and its folder readable for you, or move it away.',
  ELOOP: ' It is a link to itself; remove it.',
}

const refusal = (file: string, why: string, cause?: unknown): Fault =>
  new Fault('invalid_request', { error: `The config file ${file} ${why}`, cause })
