/**
 * Loaded into the process of each test file: fails the file if it does not end in time. `--test-timeout` limits tests only; it
 * waits forever for a file whose tests are over but which an open server or child process keeps alive.
 */
import { isMainThread } from 'node:worker_threads'

const FILE_MS_MAX = Number(process.env.BREAKFALL_TEST_FILE_MS ?? 270_000) // the limit of one test, plus time to report it

if (isMainThread && process.env.NODE_TEST_CONTEXT !== undefined) {
  const tooLate = () => {
    process.stderr.write(`The file did not end within ${FILE_MS_MAX / 1000} s. Still open: ${open()}\n`)
    process.exit(1)
  }
  setTimeout(tooLate, FILE_MS_MAX).unref()
}

function open() {
  return process.getActiveResourcesInfo().join(', ') || 'nothing known to Node'
}
