/**
 * Loaded into each process of a test file: one that has not ended in time is ended and fails. `--test-timeout` is about tests; it
 * waits for ever for a file whose tests are over while a process or a server that they left keeps it alive.
 */
import { isMainThread } from 'node:worker_threads'

const FILE_MS_MAX = Number(process.env.BREAKFALL_TEST_FILE_MS ?? 270_000) // the limit of one test, and time to say so

if (isMainThread && process.env.NODE_TEST_CONTEXT !== undefined) {
  const late = () => {
    process.stderr.write(`it had not ended after ${FILE_MS_MAX / 1000} s; still open: ${open()}\n`)
    process.exit(1)
  }
  setTimeout(late, FILE_MS_MAX).unref()
}

function open() {
  return process.getActiveResourcesInfo().join(', ') || 'nothing that Node knows of'
}
