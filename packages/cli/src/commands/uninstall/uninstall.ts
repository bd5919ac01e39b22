/**
 * `breakfall uninstall`: removes the state folder, and ends the runner and the boxes that live in it. The package itself is
 * removed by the package manager that installed it.
 *
 * I1  A folder without our files is never removed, whatever --state-dir says.
 * I2  Nothing is removed while a daemon uses it, or without a yes.
 */
import { existsSync, readdirSync, rmdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { Fault, sleep } from '@breakfall/faults'
import { errorCode } from '@breakfall/faults/internal'
import { createRunnerClient } from '@breakfall/runner/client'
import { sendSignal } from '@breakfall/supervisor/platform'
import type { Context } from '../../command-line/context.ts'
import { userConfigFile } from '../../config/paths.ts'
import { healthAt, readDaemonFile, readToken } from '../../daemon/find.ts'
import { isRunnerAlive, localRunner } from '../../daemon/local-runner.ts'
import { packageName } from '../../process/self.ts'
import { bytesText } from '../../text/amounts.ts'

export type UninstallOptions = {
  readonly yes?: boolean
  /** Also the configuration and the stored keys. */
  readonly config?: boolean
}

export async function uninstallCommand({ out, config }: Context, options: UninstallOptions): Promise<void> {
  const { stateDir, childEnv } = config
  const folders = [stateDir, ...(options.config === true ? [dirname(userConfigFile(childEnv))] : [])].filter(existsSync)
  if (folders.includes(stateDir) && !isStateFolder(stateDir)) throw notOurs(stateDir) // I1
  await refuseWhileInUse(stateDir) // I2
  const bytes = folders.reduce((sum, folder) => sum + bytesIn(folder), 0)
  if (folders.length > 0 && options.yes !== true) await askFirst(folders, bytes)
  await endRunner(stateDir)
  for (const folder of folders) removeFolder(folder)
  if (out.json) return out.result({ removed: folders, bytes })
  for (const folder of folders) out.line(`removed ${folder}`)
  if (folders.length === 0) out.line(`nothing to remove: ${stateDir} does not exist`)
  return out.say(`to remove the program itself, run: ${removal(packageName)}`)
}

/** A checkout has the name of its workspace; if it was linked, npm knows it by that. Pure. */
export const removal = (name: string): string =>
  name === 'breakfall'
    ? 'npm uninstall breakfall (with -g if you installed it globally)'
    : `npm uninstall -g ${name} (if you linked this checkout), and delete the checkout`

// ---- details, in the order they are used above ----

/** I1: one of the files that every daemon or runner creates first. */
const OURS = ['daemon.token', 'journal/journal.db', 'runner/identity.json']
const isStateFolder = (folder: string): boolean =>
  readdirSync(folder).length === 0 || OURS.some((file) => existsSync(join(folder, file)))

const notOurs = (folder: string): Fault =>
  new Fault('invalid_request', {
    message: {
      happened: `${folder} does not look like a state folder of Breakfall.`,
      action: 'Nothing was removed.',
      advice: 'Check --state-dir.',
    },
  })

async function refuseWhileInUse(stateDir: string): Promise<void> {
  const daemon = readDaemonFile(stateDir)
  const found = daemon === undefined ? undefined : await healthAt(daemon.url)
  if (daemon === undefined || found === undefined || found === 'not a daemon') return
  throw new Fault('session_busy', {
    message: {
      happened: `A daemon is using ${stateDir} (pid ${daemon.pid}).`,
      action: 'Nothing was removed.',
      advice: `Stop it first: kill ${daemon.pid}`,
    },
  })
}

function bytesIn(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce(
      (sum, entry) => sum + (statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0),
      0,
    )
}

async function askFirst(folders: readonly string[], bytes: number): Promise<void> {
  const what = `${folders.join(' and ')} (${bytesText(bytes)}), with every session in it`
  if (!process.stdin.isTTY)
    throw new Fault('invalid_request', {
      message: {
        happened: `This removes ${what}, and there is no terminal to ask in.`,
        action: 'Nothing was removed.',
        advice: 'To remove it, add --yes.',
      },
    })
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const answer = await lines.question(`Remove ${what}? Type yes: `)
    if (answer.trim() !== 'yes') throw new Fault('cancelled', { error: 'Nothing was removed.' })
  } finally {
    lines.close()
  }
}

const END_MS_MAX = 10_000
const LOOK_MS = 50

/** Removes the runner's boxes, which ends their commands, and then the runner. It waits minutes for a new daemon otherwise. */
async function endRunner(stateDir: string): Promise<void> {
  const runner = localRunner(stateDir)
  if (runner === undefined) return
  const client = createRunnerClient({ url: runner.url, token: readToken(join(stateDir, 'runner.token')) })
  const signal = AbortSignal.timeout(END_MS_MAX)
  try {
    for (const { id } of await client.listBoxes({ signal })) await client.removeBox(id, { signal })
  } finally {
    await client.close()
  }
  sendSignal(runner.pid, 'SIGTERM')
  while (isRunnerAlive(runner) && !signal.aborted) await sleep(LOOK_MS)
  if (!isRunnerAlive(runner)) return
  throw new Fault('process_hung', {
    message: {
      happened: `The runner (pid ${runner.pid}) did not end in time.`,
      advice: 'End it yourself, then run uninstall again.',
    },
  })
}

/** A mount point, as in a container, or a folder whose parent is not ours stays, empty. */
function removeFolder(folder: string): void {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true, force: true })
  try {
    rmdirSync(folder)
  } catch (error) {
    if (!['EBUSY', 'EACCES', 'EPERM', 'EROFS'].includes(errorCode(error) ?? '')) throw error
  }
}
