/**
 * The flags of a runner, for the program of this package (main.ts) and for `breakfall runner`. It imports nothing that serves a
 * runner, so that `--help` stays fast.
 */
import { ISOLATION_LEVELS } from '@breakfall/wire'

export type RunnerFlag = {
  /** What stands for its value in the help; a flag without one is a switch. */
  readonly word?: string
  /** How its value is read; by default as it is. */
  readonly read?: keyof typeof NUMBERS | 'list'
  readonly choices?: readonly string[]
  readonly initial?: string | number
  readonly about: string
}

/** By the name of its value: `idleExitMs` is `--idle-exit-ms`. */
export const RUNNER_FLAGS = {
  port: { word: 'port', read: 'port', initial: 0, about: 'the port; 0 for a free one' },
  host: { word: 'address', initial: '127.0.0.1', about: 'the address to bind' },
  tokenFile: { word: 'file', about: 'the file with the tokens; created if missing' },
  allowWorkspace: { word: 'dir', read: 'list', about: 'a folder that boxes may use as workspace (repeatable)' },
  allowMount: {
    word: 'dir',
    read: 'list',
    about: 'a folder that boxes may mount read-only; DIR:rw also writable (repeatable)',
  },
  home: {
    word: 'home',
    choices: ['real', 'private'],
    about: 'the home folder of boxes if their creator names none (default: real)',
  },
  allowPorts: { about: 'let callers open ports of boxes on the loopback of this machine' },
  allowIsolation: { word: 'level', choices: ['process'], about: 'allow commands without a sandbox' },
  allowHost: { word: 'name', read: 'list', about: 'a host name that requests may use (repeatable)' },
  isolation: { word: 'level', choices: ISOLATION_LEVELS, about: 'process: no sandbox, even if bubblewrap works' },
  idleExitMs: { word: 'ms', read: 'milliseconds', about: 'exit after this long without calls and execs' },
  boxesMax: { word: 'count', read: 'count', about: 'boxes that may run at once (default: 1000)' },
  boxesKeptMax: { word: 'count', read: 'count', about: 'stopped boxes that are kept (default: 20000)' },
} as const satisfies Readonly<Record<string, RunnerFlag>>

export type RunnerFlags = {
  readonly [Name in keyof typeof RUNNER_FLAGS]?: ValueOf<(typeof RUNNER_FLAGS)[Name]>
}

/** Undefined if it is no such number. */
export function readNumber(kind: keyof typeof NUMBERS, text: string): number | undefined {
  const [min, max] = NUMBERS[kind]
  const number = Number(text)
  return /^\d+$/.test(text) && number >= min && number <= max ? number : undefined
}

export const flagNameOf = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

// ---- details ----

/** The least and the most. */
const NUMBERS = { port: [0, 65_535], milliseconds: [0, 2 ** 31 - 1], count: [1, 1_000_000] } as const

type ValueOf<Flag extends RunnerFlag> = Flag extends { readonly choices: readonly (infer Choice)[] }
  ? Choice
  : Flag extends { readonly read: keyof typeof NUMBERS }
    ? number
    : Flag extends { readonly read: 'list' }
      ? readonly string[]
      : Flag extends { readonly word: string }
        ? string
        : boolean
