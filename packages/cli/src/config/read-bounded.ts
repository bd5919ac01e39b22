/** Reads a config file and nothing else: a clone may bring a link to a device that never ends, or a pipe that nobody fills. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { Fault, isFault } from '@breakfall/faults'

const CONFIG_BYTES_MAX = 1024 * 1024

/** Undefined where there is none. */
export function readBounded(file: string): string | undefined {
  try {
    const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK) // a pipe would keep us waiting
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
    const { code = 'unknown error' } = cause as NodeJS.ErrnoException
    if (isFault(cause)) throw cause
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw refusal(file, `cannot be read (${code})`, cause)
  }
}

const refusal = (file: string, why: string, cause?: unknown): Fault =>
  new Fault('invalid_request', { error: `the config file ${file} ${why}`, ...(cause === undefined ? {} : { cause }) })
