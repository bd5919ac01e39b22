/**
 * Descriptors that whoever started this process left open, and that every child would get: a pipe, a socket, a secret.
 * Node marks its own, and the low ones, to be closed in children; the rest is found here. They are not closed, since a
 * library does not know who else in its process uses them.
 */
import { readdirSync, readFileSync } from 'node:fs'

const O_CLOEXEC = 0o2_000_000

export function inheritedDescriptors(): readonly number[] {
  return readdirSync('/proc/self/fdinfo')
    .map(Number)
    .filter((fd) => fd > 2 && isPassedOn(fd))
}

function isPassedOn(fd: number): boolean {
  try {
    const flags = /^flags:\s+([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1]
    return flags !== undefined && (Number.parseInt(flags, 8) & O_CLOEXEC) === 0
  } catch {
    return false // the one that listed the folder
  }
}
