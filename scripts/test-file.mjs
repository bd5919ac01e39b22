/**
 * Loaded into the process of each test file.
 *
 * I1  A file that does not end in time fails. `--test-timeout` limits tests only; it waits forever for a file whose tests are over
 *     but which an open server or child process keeps alive.
 * I2  A file that leaves something in its temporary folder fails and says what. Nothing stays on the machine either way.
 */
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isMainThread } from 'node:worker_threads'

const FILE_MS_MAX = Number(process.env.BREAKFALL_TEST_FILE_MS ?? 270_000) // the limit of one test, plus time to report it

if (isMainThread && process.env.NODE_TEST_CONTEXT !== undefined) {
  endInTime()
  if (process.env.BREAKFALL_TEST_TMPDIR === undefined) leaveNothing() // a child of a test file uses its parent's
}

function endInTime() {
  const tooLate = () => {
    process.stderr.write(`The file did not end within ${FILE_MS_MAX / 1000} s. Still open: ${open()}\n`)
    process.exit(1)
  }
  setTimeout(tooLate, FILE_MS_MAX).unref()
}

function open() {
  return process.getActiveResourcesInfo().join(', ') || 'nothing known to Node'
}

function leaveNothing() {
  const folder = mkdtempSync(join(tmpdir(), process.env.BREAKFALL_TEST_PREFIX ?? 'bf-')) // the whole run looks for what is left of it
  chmodSync(folder, 0o1777) // some tests run programs as another user
  process.env.BREAKFALL_TEST_TMPDIR = tmpdir() // for what all files of a run share
  process.env.TMPDIR = folder
  process.on('exit', () => {
    const left = readdirSync(folder, { recursive: true })
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
    if (left.length === 0) return
    process.stderr.write(
      `The file left ${left.length} entries in its temporary folder: ${left.slice(0, 12).join(', ')}\n`,
    )
    process.exitCode ||= 1
  })
}
