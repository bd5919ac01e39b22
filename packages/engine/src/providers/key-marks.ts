/**
 * Recognises a key without keeping it: a mark that only this state folder can make. A daemon that restarts with the same key in its
 * own configuration continues the sessions that brought it, and no session ever gets another key.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Undefined if the salt cannot be stored. */
export type MarkKey = (apiKey: string) => string | undefined

const SALT_BYTES = 32
const MARK_CHARS = 32 // 128 bits

/** Without its salt, in a file that only its owner can read, a mark says nothing about its key. */
export function keyMarker(stateDir: string): MarkKey {
  let salt: Buffer | undefined
  return (apiKey) => {
    salt ??= saltIn(join(stateDir, 'key-marks.salt'))
    return salt && createHmac('sha256', salt).update(apiKey).digest('hex').slice(0, MARK_CHARS)
  }
}

// ---- details ----

function saltIn(file: string): Buffer | undefined {
  try {
    if (!existsSync(file)) writeFileSync(file, randomBytes(SALT_BYTES), { mode: 0o600, flag: 'wx' })
    const salt = readFileSync(file)
    return salt.length === SALT_BYTES ? salt : undefined // a full disk cut it off
  } catch {
    return undefined // the disk is full: after a restart, the session's key has to be brought again
  }
}
