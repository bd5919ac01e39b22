/**
 * The folders that runs of earlier versions had noted in two lists, for all callers of the API. Now a run signs its session's
 * folders. Sessions from before have no signature, so they get one for what was on the lists; nothing else is left of these.
 */
import { readFileSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { homeFolder, replaceFile } from '@breakfall/supervisor/platform'
import type { BoxCreate } from '@breakfall/wire'
import { FOLDER_KEY, signFolders } from '@breakfall/wire/node'

type Earlier = {
  readonly version: 1
  /** Sessions that were created before this time. */
  readonly before: string
  readonly workspaces: readonly string[]
  /** `DIR:ro` or `DIR:rw`. */
  readonly mounts: readonly string[]
  /** What no session may have, and was on the lists all the same. */
  readonly dropped: readonly string[]
}

export class EarlierFolders {
  readonly #stateDir: string
  readonly #earlier: Earlier

  constructor(stateDir: string) {
    this.#stateDir = stateDir
    this.#earlier = readEarlierFolders(stateDir)
  }

  /** The box with its signature, or with one for folders of an earlier run. */
  signed(box: BoxCreate, createdAt: string): BoxCreate {
    const { before, workspaces, mounts: noted } = this.#earlier
    const { workspace, mounts = [] } = box
    if (box.grant !== undefined || createdAt >= before) return box
    const isNoted =
      (workspace === undefined || workspaces.includes(workspace)) &&
      mounts.every(({ path, mode = 'ro' }) => noted.includes(`${path}:${mode}`))
    if (!isNoted) return box
    try {
      const folders = {
        workspace: workspace === undefined ? undefined : realpathSync(workspace),
        mounts: mounts.map(({ path, mode = 'ro' }) => ({ path: realpathSync(path), mode })),
      }
      return { ...box, grant: signFolders(join(this.#stateDir, 'runner', FOLDER_KEY), folders) }
    } catch {
      return box // a folder is gone, which the runner says
    }
  }
}

/** Takes in the lists of earlier versions. Returns what was on them and may not be. */
export function takeInEarlierFolders(stateDir: string, now: string): readonly string[] {
  const [workspaces, mounts] = [linesOf(join(stateDir, 'workspaces')), linesOf(join(stateDir, 'mounts'))]
  if (workspaces === undefined && mounts === undefined) return []
  const known = readEarlierFolders(stateDir)
  const isDropped = (text: string): boolean => isWide(text.replace(/:r[ow]$/, ''), stateDir)
  const all = { workspaces: workspaces ?? [], mounts: mounts ?? [] }
  const dropped = [...all.workspaces, ...all.mounts].filter(isDropped)
  const kept = (texts: readonly string[], more: readonly string[]): readonly string[] =>
    [...new Set([...texts, ...more])].filter((text) => !isDropped(text))
  const earlier: Earlier = {
    version: 1,
    before: now,
    workspaces: kept(known.workspaces, all.workspaces),
    mounts: kept(known.mounts, all.mounts),
    dropped: [...new Set([...known.dropped, ...dropped])],
  }
  replaceFile(fileIn(stateDir), `${JSON.stringify(earlier, null, 2)}\n`)
  for (const name of ['workspaces', 'mounts']) rmSync(join(stateDir, name), { force: true })
  return dropped
}

// ---- details ----

const fileIn = (stateDir: string): string => join(stateDir, 'earlier-folders.json')

const NOTHING: Earlier = { version: 1, before: '', workspaces: [], mounts: [], dropped: [] }

export function readEarlierFolders(stateDir: string): Earlier {
  try {
    const found = JSON.parse(readFileSync(fileIn(stateDir), 'utf8')) as Partial<Earlier>
    return found.version === 1 ? { ...NOTHING, ...found } : NOTHING
  } catch {
    return NOTHING // there were no lists, or what was kept of them is damaged: then it allows nothing
  }
}

/** Undefined: there is no such list. A line is a path, or a path as JSON. */
function linesOf(file: string): readonly string[] | undefined {
  try {
    return readFileSync(file, 'utf8')
      .split('\n')
      .flatMap((line) => (line.startsWith('"') ? unquoted(line) : line === '' ? [] : [line]))
  } catch {
    return undefined
  }
}

function unquoted(line: string): readonly string[] {
  try {
    return [String(JSON.parse(line))]
  } catch {
    return [] // incomplete
  }
}

/** Part of the system, or above the home folder or the state folder. */
function isWide(path: string, stateDir: string): boolean {
  const above = path.endsWith('/') ? path : `${path}/`
  const home = homeFolder(process.env) ?? '/'
  return SYSTEM.has(path) || [home, stateDir].some((folder) => `${folder}/`.startsWith(above))
}

const SYSTEM: ReadonlySet<string> = new Set(
  [
    '',
    'etc',
    'usr',
    'opt',
    'bin',
    'sbin',
    'lib',
    'lib64',
    'tmp',
    'var',
    'boot',
    'proc',
    'sys',
    'dev',
    'run',
    'home',
  ].map((name) => `/${name}`),
)
