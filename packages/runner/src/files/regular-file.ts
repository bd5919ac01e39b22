/**
 * Reads files that a command may have put there. The descriptor is checked, not the path: no link is followed, and a pipe or a
 * device is not waited for.
 */
import { closeSync, constants, copyFileSync, fstatSync, openSync, readSync, type Stats } from 'node:fs'
import { DESCRIPTORS } from '@breakfall/supervisor/platform'

/** All of a regular file, without following a link; undefined if there is none, or if it is larger. */
export function readRegular(path: string, bytesMax = TEXT_BYTES_MAX): Buffer | undefined {
  return withRegular(path, bytesMax, readUpTo)
}

/** Copies a regular file; undefined if there is none, or if it is larger. */
export function copyRegular(path: string, to: string, bytesMax: number): Stats | undefined {
  return withRegular(path, bytesMax, (fd, stat) => {
    copyFileSync(`${DESCRIPTORS}/${fd}`, to)
    return stat
  })
}

// ---- details ----

const TEXT_BYTES_MAX = 256 * 1024

/** What it held when it was checked: a command may make it larger before it is read. */
function readUpTo(fd: number, { size }: Stats): Buffer {
  const bytes = Buffer.alloc(size)
  let length = 0
  for (let read = -1; read !== 0 && length < size; length += read) read = readSync(fd, bytes, { offset: length })
  return bytes.subarray(0, length)
}

function withRegular<T>(path: string, bytesMax: number, use: (fd: number, stat: Stats) => T): T | undefined {
  let fd: number
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  } catch {
    return undefined // missing, a link, or not readable for us
  }
  try {
    const stat = fstatSync(fd)
    return stat.isFile() && stat.size <= bytesMax ? use(fd, stat) : undefined
  } finally {
    closeSync(fd)
  }
}
