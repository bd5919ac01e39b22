/** The ends of a named pipe. */
import { constants, openSync } from 'node:fs'

/** Opened for reading and writing: neither side has to be there first, and nobody's leaving ends it. */
export function openFifo(path: string): number {
  return openSync(path, constants.O_RDWR)
}

export function openWriteEnd(path: string): number {
  return openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
}
