/**
 * Ways to make a sandbox for one `true`, without the runner: a shell gets a word and answers with the exit code. They show what the
 * design costs and what was rejected: entering a living sandbox (D, E), using one again (K), building one ahead (P: fast, and more code than a few milliseconds are worth).
 * The arguments of bubblewrap are those of a real exec, whose sandbox is also the living one.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'

export type RawWay = {
  readonly name: string
  /** Done before the clock starts. */
  readonly prepare?: () => Promise<unknown>
  readonly run: () => Promise<unknown>
}

export type RawSandboxes = { readonly ways: readonly RawWay[]; readonly missing: readonly string[]; close(): void }

export const RAW_BWRAP = 'raw: bwrap, our arguments'

/** `exec`: the folder of an exec that runs in a sandbox. */
export async function rawSandboxes(exec: string, folder: string): Promise<RawSandboxes> {
  const args = join(folder, 'sandbox-args')
  copyFileSync(join(exec, 'sandbox'), args)
  const init = Number(/"child-pid": (\d+)/.exec(readFileSync(join(exec, 'status'), 'latin1'))?.[1])
  const bwrap = ['bwrap', '--args', '9', '--']
  const enter = ['nsenter', '-t', String(init), '-m', '-u', '-i', '-n', '-p', ...(ownsUsers(init) ? ['-U'] : []), '--']
  const enterAsRoot = enter.filter((word) => word !== '-U' && word !== '-p') // there, no pids and no /proc can be made
  const drop = ['setpriv', '--no-new-privs', '--inh-caps=-all', '--bounding-set=-all', '--', 'env', '-i', '/bin/true']
  const nested = ['unshare', '--mount', '--pid', '--fork', '--mount-proc', '--']
  const shells = {
    'raw: fork and exec': new Shell(args, ONE_BY_ONE, ['true']),
    'raw: as level process (`setsid`, `env -i`)': new Shell(args, ONE_BY_ONE, ['setsid', 'env', '-i', '/bin/true']),
    [RAW_BWRAP]: new Shell(args, ONE_BY_ONE, [...bwrap, 'true']),
    'raw D: `nsenter` and `setpriv` into a living sandbox': new Shell(args, ONE_BY_ONE, [...enter, ...drop]),
    'raw E: D with its own pids and /proc': new Shell(args, ONE_BY_ONE, [...enterAsRoot, ...nested, ...drop]),
    'raw K: one sandbox for all commands': new Shell(args, 'exec "$@"', [
      ...bwrap,
      'sh',
      '-c',
      ONE_BY_ONE,
      'sh',
      'true',
    ]),
    'raw P: a sandbox built ahead, used once': new Shell(args, ONE_BY_ONE_WAITING, [...bwrap, 'sh', '-c', DOOR]),
  }
  const ways: RawWay[] = []
  const missing: string[] = []
  for (const [name, shell] of Object.entries(shells)) {
    const isAhead = name.startsWith('raw P')
    const way = {
      name,
      ...(isAhead ? { prepare: () => shell.ask('build', 'ready') } : {}),
      run: () => shell.ask('go', '0'),
    }
    try {
      await way.prepare?.()
      await way.run()
      ways.push(way)
    } catch (error) {
      missing.push(`${name} (${String(error).slice(0, 200)})`) // a plain user may not enter its own sandbox, for example
    }
  }
  return {
    ways,
    missing,
    close: () => {
      for (const shell of Object.values(shells)) shell.close()
    },
  }
}

// ---- details ----

const ONE_BY_ONE = 'while read -r go; do ( exec "$@" ) </dev/null >/dev/null; echo "$?"; done'
const ONE_BY_ONE_WAITING = 'while read -r build; do ( exec "$@" ); echo "$?"; done'
const DOOR = 'echo ready; read -r go; exec true'

const ownsUsers = (pid: number): boolean => readlinkSync(`/proc/${pid}/ns/user`) !== readlinkSync('/proc/self/ns/user')

/** A shell that answers each word with one line. Descriptor 9 has the arguments of bubblewrap, opened again for each. */
class Shell {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>
  readonly #lines: AsyncIterator<string>
  #said = ''

  constructor(args: string, script: string, words: readonly string[]) {
    const opening = script.includes('( exec "$@" )')
      ? script.replace('( exec "$@" )', `( exec "$@" 9<'${args}' )`)
      : `${script} 9<'${args}'`
    this.#child = spawn('/bin/sh', ['-c', opening, 'sh', ...words], { stdio: ['pipe', 'pipe', 'pipe'] })
    this.#child.stdin.on('error', () => undefined) // its end is reported by the missing answer
    this.#child.stderr.on('data', (bytes: Buffer) => (this.#said = bytes.toString().trim()))
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
  }

  async ask(word: string, expected: string): Promise<void> {
    this.#child.stdin.write(`${word}\n`)
    const { value } = await this.#lines.next()
    if (value !== expected) throw new Error(this.#said || `it answered ${value}`)
  }

  close(): void {
    this.#child.stdin.end()
    void once(this.#child, 'exit').catch(() => undefined)
  }
}
