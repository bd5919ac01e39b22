/** The `breakfall` command as a user runs it, with a private home folder. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { removeFolder } from '../test/kit/folder.ts'
import { type Ended, nodeProgram, type Program } from '../test/kit/program.ts'
import { removeControlGroups } from './control-groups.ts'

export const main = fileURLToPath(new URL('../packages/cli/src/main.ts', import.meta.url))
/** The installed command, which runs on any Node. */
export const LAUNCHER = fileURLToPath(new URL('../packages/cli/bin/breakfall.mjs', import.meta.url))

/** Flags that make `run` work on this machine, with or without a sandbox. */
export const hasSandbox = (process.env['PATH'] ?? '').split(':').some((folder) => existsSync(join(folder, 'bwrap')))
export const isolation = hasSandbox ? [] : ['--isolation', 'process', '--approve', 'never']

/** Addresses that refuse connections. They keep the tests from finding a model server on the developer's machine. */
export const NO_LOCAL_MODEL = { OLLAMA_HOST: '127.0.0.77:9009', LLAMA_ARG_HOST: '127.0.0.77', LLAMA_ARG_PORT: '9010' }

/** `script` runs a program in a terminal. */
export const hasTerminals = existsSync('/usr/bin/script')

/** A program in a terminal, with a user at the keyboard. */
export type AtTerminal = {
  readonly child: ChildProcess
  readonly code: Promise<number | null>
  /** Everything shown so far, including escape sequences. */
  text(): string
  /** The first match in the output, as soon as there is one. */
  shown(pattern: RegExp): Promise<RegExpExecArray>
  press(keys: string): void
}

export type { Ended } from '../test/kit/program.ts'

/** A private home, state folder and working folder. Removed at the end, together with every process still running in them. */
export class Place implements AsyncDisposable {
  readonly home = mkdtempSync(join(tmpdir(), 'breakfall e2e '))
  readonly folder = join(this.home, 'work')
  readonly stateDir = join(this.home, 'state', 'breakfall')
  readonly #running: ChildProcess[] = []
  readonly #program: string
  readonly #ownGroup: boolean

  /** `ownGroup` makes each program the leader of a process group, as a supervisor or a shell does. */
  constructor(files: Readonly<Record<string, string>> = {}, program = main, { ownGroup = false } = {}) {
    this.#program = program
    this.#ownGroup = ownGroup
    mkdirSync(this.folder)
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(this.folder, path)), { recursive: true })
      writeFileSync(join(this.folder, path), content)
    }
  }

  #environment(env: Readonly<Record<string, string>>): Record<string, string> {
    return {
      PATH: process.env['PATH'] ?? '',
      HOME: this.home,
      XDG_CONFIG_HOME: join(this.home, 'config'),
      XDG_STATE_HOME: join(this.home, 'state'),
      ...(process.env['NODE_COMPILE_CACHE'] !== undefined && { NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] }),
      ...NO_LOCAL_MODEL,
      ...env,
    }
  }

  startInTerminal(args: readonly string[], env: Readonly<Record<string, string>> = {}): AtTerminal {
    const command = [process.execPath, this.#program, ...args]
      .map((word) => `'${word.replaceAll("'", "'\\''")}'`)
      .join(' ')
    const child = spawn('/usr/bin/script', ['-qfec', `exec ${command}`, '/dev/null'], {
      cwd: this.folder,
      stdio: ['pipe', 'pipe', 'inherit'],
      env: this.#environment({ TERM: 'xterm-256color', SHELL: '/bin/sh', ...env }),
    })
    this.#running.push(child)
    let text = ''
    const looking = new Set<() => void>()
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString()
      for (const look of looking) look()
    })
    const code = once(child, 'close').then(([ended]) => ended as number | null)
    return {
      child,
      code,
      text: () => text,
      press: (keys) => void child.stdin.write(keys),
      shown: (pattern) =>
        new Promise((resolve, reject) => {
          const look = (): void => {
            const found = pattern.exec(text)
            if (found === null) return
            looking.delete(look)
            resolve(found)
          }
          looking.add(look)
          look()
          void code.then(() => reject(new Error(`it ended without showing ${String(pattern)}:\n${text}`)))
        }),
    }
  }

  /** Standard input: none, the given text, or (null) a pipe that stays open. */
  start(args: readonly string[], env: Readonly<Record<string, string>> = {}, input?: string | Buffer | null): Program {
    const program = nodeProgram(this.#program, args, {
      cwd: this.folder,
      env: this.#environment(env),
      ownGroup: this.#ownGroup,
      ...(input !== undefined && { input }),
    })
    this.#running.push(program.child)
    return program
  }

  run(args: readonly string[], env: Readonly<Record<string, string>> = {}, input?: string | Buffer): Promise<Ended> {
    return this.start(args, env, input).ended
  }

  /** Processes on this machine whose command line contains this home folder. */
  leftovers(): readonly string[] {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
      .flatMap((pid) => {
        try {
          const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
          return command.includes(this.home) ? [`${pid} ${command}`] : []
        } catch {
          return [] // it ended meanwhile
        }
      })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#running) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), 3_000)
      await once(child, 'close')
      clearTimeout(timer)
    }
    for (const line of this.leftovers()) {
      try {
        process.kill(Number(line.split(' ')[0]), 'SIGKILL')
      } catch {
        // it ended meanwhile
      }
    }
    await removeControlGroups(this.home)
    removeFolder(this.home)
  }
}
