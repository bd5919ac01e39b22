/** The port of the last daemon of this state folder. An open page knows its daemon by it, so the next daemon tries it first. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Bound, HttpServer } from '@breakfall/wire/node'

/** Listens on the last port, or on a free one if another program has it by now. */
export async function listenAsBefore(
  server: Pick<HttpServer, 'listen'>,
  stateDir: string,
  host: string | undefined,
): Promise<Bound> {
  const last = lastPort(stateDir)
  if (last === undefined) return server.listen(0, host)
  return server.listen(last, host).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE' && error.code !== 'EACCES') throw error
    return server.listen(0, host)
  })
}

/** A note that cannot be written costs a page its address at the next start, and nothing else. */
export function notePort(stateDir: string, port: number): void {
  try {
    if (lastPort(stateDir) !== port) writeFileSync(fileIn(stateDir), `${port}\n`, { mode: 0o600 })
  } catch {
    // The disk is full or read-only, which the journal reports.
  }
}

// ---- details ----

const fileIn = (stateDir: string): string => join(stateDir, 'daemon.port')

function lastPort(stateDir: string): number | undefined {
  try {
    const port = Number(readFileSync(fileIn(stateDir), 'utf8'))
    return Number.isInteger(port) && port > 0 && port < 65_536 ? port : undefined
  } catch {
    return undefined // no daemon has run here
  }
}
