/** One runner for all tests of a file, with a box and a host folder that boxes may use. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, type TestContext } from 'node:test'
import { BOXES, WireRunner } from './runner-process.ts'

export type SharedRunner = {
  readonly runner: WireRunner
  readonly box: string
  /** The path of its box. */
  readonly place: string
  /** A private folder for the tests, outside the runner's folders. */
  readonly home: string
  /** The folder in it that boxes may use. */
  readonly allowed: string
  /** Creates a folder in `home`. */
  readonly folder: (name: string) => string
  /** Skips the test at level process, which isolates nothing. */
  readonly needsSandbox: (t: TestContext) => boolean
}

/** Starts the runner and stops it after the file's last test. */
export async function sharedRunner(
  options: { readonly env?: Record<string, string>; readonly box?: object } = {},
): Promise<SharedRunner> {
  const home = mkdtempSync(join(tmpdir(), 'breakfall-wire-host-'))
  const folder = (name: string): string => {
    mkdirSync(join(home, name), { recursive: true })
    return join(home, name)
  }
  const allowed = folder('allowed')
  const runner = await WireRunner.start({
    flags: ['--allow-isolation', 'process', '--allow-workspace', allowed],
    ...(options.env === undefined ? {} : { env: options.env }),
  })
  after(async () => {
    await runner[Symbol.asyncDispose]()
    rmSync(home, { recursive: true })
  })
  const box = await runner.box(options.box)
  const needsSandbox = (t: TestContext): boolean => {
    if (runner.level === 'bwrap') return true
    t.skip('bwrap does not work on this machine')
    return false
  }
  return { runner, box, place: `${BOXES}/${box}`, home, allowed, folder, needsSandbox }
}
