/**
 * Goes on as the program, under the Node that it needs. Plain JavaScript: the old Node runs it.
 *
 * Node 22.15 and up becomes it. An older one starts it and stays as its stand-in, with three promises:
 * I1  A signal counts once, whoever got it. One to the group (a terminal's Ctrl-C, a supervisor) reaches the program by itself as
 *     well, so what reaches us is passed on as a message, and the program takes the two for one (packages/cli/src/process/signals.ts).
 * I2  A signal is answered, however early: a program that it ended was not up yet, and is started again to be told.
 * I3  The stand-in's end is the program's end, `kill -9` too: the channel between them closes, and the program ends itself.
 */
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { environment, say } from './setup.mjs'

/** `cwd` left out: where we are. */
export function become(node, args, cwd) {
  if (process.execve) {
    if (cwd !== undefined) process.chdir(cwd)
    process.execve(node, [node, ...args], environment())
  }
  let child
  const start = (early = '') => {
    child = spawn(node, args, {
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
      cwd,
      env: { ...environment(), BREAKFALL_SIGNAL: early },
    })
    child.on('error', (error) => {
      say(`could not run ${node}: ${error.message}`)
      process.exitCode = 1
    })
    child.on('exit', (code, signal) => {
      if (SIGNALS.includes(signal)) start(signal) // I2
      else process.exitCode = code ?? 128 + constants.signals[signal]
    })
  }
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      if (child.connected) child.send({ signal }, () => undefined) // I1; one that has just ended needs none
    })
  }
  start()
}

/** What the program has last words for. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
