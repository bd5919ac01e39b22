/** The ends of a named pipe. */
import { constants, openSync } from 'node:fs'

/** Opens both ends: no other process has to open it first, and none can end it by closing it. */
export function openFifo(path: string): number {
  return openSync(path, constants.O_RDWR)
}

export function openWriteEnd(path: string): number {
  return openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
}
