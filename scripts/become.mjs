/**
 * Replaces this process with the program, under the Node version it needs. Plain JavaScript, because an old Node runs it.
 *
 * Node 22.15 and later can replace itself. An older Node starts the program as a child and acts for it:
 * I1  A signal counts once. A signal to the process group (Ctrl-C in a terminal, a supervisor) reaches the program directly too, so
 *     we forward ours as a message and the program treats both as one (packages/cli/src/process/signals.ts).
 * I2  No signal is lost, however early: if it kills the program during start-up, we start the program again and pass it on.
 * I3  When this process ends, even by `kill -9`, the program ends too: the channel between them closes and the program exits.
 * I4  After the terminal was closed, we die of SIGHUP: an older Node that exits restores the terminal's mode, and aborts if it is gone.
 */
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { isatty } from 'node:tty'
import { environment, say } from './setup.mjs'

/**
 * Without `cwd` the program runs in the current folder. `parents`: processes without which the program ends, by their ids.
 */
export function become(node, args, { cwd, parents = [] } = {}) {
  const env = { ...environment(), ...(parents.length === 0 ? {} : { BREAKFALL_PARENTS: parents.join(',') }) }
  if (process.execve) {
    if (cwd !== undefined) process.chdir(cwd)
    process.execve(node, [node, ...args], env)
  }
  const terminals = [0, 1, 2].filter((fd) => isatty(fd))
  let child
  const start = (early = '') => {
    child = spawn(node, args, {
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
      cwd,
      env: { ...env, BREAKFALL_SIGNAL: early },
    })
    child.on('error', (error) => {
      say(`could not run ${node}: ${error.message}`)
      process.exitCode = 1
    })
    child.on('exit', (code, signal) => {
      if (SIGNALS.includes(signal)) start(signal) // I2
      else if (terminals.some((fd) => !isatty(fd))) hangUp() // I4
      else process.exitCode = code ?? 128 + constants.signals[signal]
    })
  }
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      if (child.connected) child.send({ signal }, () => undefined) // I1; a program that has just ended needs no signal
    })
  }
  start()
}

/** Signals that the program handles. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']

function hangUp() {
  process.removeAllListeners('SIGHUP')
  process.kill(process.pid, 'SIGHUP')
}
