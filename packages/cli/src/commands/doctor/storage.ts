/** The doctor's checks of what sessions leave behind: the state folder and its growth, boxes and processes that still run. */
import { type Dirent, lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readJournal } from '@breakfall/engine/journal'
import { type Fault, isFault } from '@breakfall/faults'
import type { ResolvedConfig } from '../../config/resolve.ts'
import { cmd } from '../../process/command-name.ts'
import { bytesText, counted } from '../../text/amounts.ts'
import { printable } from '../../text/printable.ts'
import type { Finding } from './finding.ts'

export function checkStorage({ stateDir, retention }: ResolvedConfig, now: number): readonly Finding[] {
  try {
    using journal = readJournal(stateDir, '')
    if (journal === undefined) return [] // nothing has run here yet
    const usage = journal.usage(new Date(now - DAYS * DAY_MS).toISOString())
    const { bytes, isPart } = sizeOf(stateDir)
    return [storageFinding({ ...usage, diskBytes: bytes, isPart, isRetained: retention !== undefined })]
  } catch (error) {
    return [damage(whole(stateDir, error))]
  }
}

/** Reads every session to its end, newest first, as far as `isOver` lets it. */
export function checkJournals(
  { stateDir }: Pick<ResolvedConfig, 'stateDir'>,
  isOver: () => boolean,
): readonly Finding[] {
  try {
    using journal = readJournal(stateDir, '')
    if (journal === undefined) return []
    const { checked, damaged, isWhole } = journal.check(isOver)
    if (damaged.length > 0) return damaged.map(({ fault }) => damage(happened(fault), fault.report))
    if (checked === 0) return []
    const which = isWhole ? counted(checked, 'journal') : `the newest ${counted(checked, 'journal')}`
    const rest = isWhole ? '' : '; there was no time for the others'
    return [{ check: 'journals', verdict: 'ok', found: `${which} read to the end, and intact${rest}` }]
  } catch (error) {
    return isFault(error) && error.category === 'journal_corrupt' ? [] : [damage(String(error))] // the storage row says it
  }
}

type Storage = {
  readonly sessions: number
  readonly recentSessions: number
  readonly recentBytes: number
  readonly diskBytes: number
  /** There are too many files to count all of them. */
  readonly isPart: boolean
  /** Old sessions are deleted on a schedule. */
  readonly isRetained: boolean
}

/** Pure. */
export function storageFinding(storage: Storage): Finding {
  const { sessions, recentSessions, recentBytes, diskBytes, isPart, isRetained } = storage
  const recent = `${counted(recentSessions, 'session')} and ${bytesText(recentBytes)} in the last ${DAYS} days`
  const found = `${counted(sessions, 'session')}, ${isPart ? 'at least ' : ''}${bytesText(diskBytes)} in all; ${recent}`
  if (diskBytes < BYTES_MANY || isRetained) return { check: CHECK, verdict: 'ok', found }
  const fix = `delete old sessions: ${cmd('prune')} --older-than 30d; or on a schedule: [retention] sessionDays = 30`
  return { check: CHECK, verdict: 'warn', found, fix }
}

/** Boxes of a runner on this machine, as its folder lists them. It need not be running. */
export function checkLocalBoxes({ stateDir, runner }: ResolvedConfig): readonly Finding[] {
  if (runner.kind !== 'local') return []
  const root = join(stateDir, 'runner', 'boxes')
  const running = foldersIn(root).map(
    (prefix) => foldersIn(join(root, prefix)).filter((id) => isRunning(join(root, prefix, id, 'box.json'))).length,
  )
  return boxesFinding(Math.max(0, ...running), runner.boxesMax ?? BOXES_MAX)
}

/** Nothing is said as long as there is room. Pure. */
export function boxesFinding(running: number, boxesMax: number): readonly Finding[] {
  if (running < boxesMax) return []
  return [
    {
      check: 'boxes',
      verdict: 'bad',
      found: `${running} of ${boxesMax} boxes are running at the runner, so the next run may be refused`,
      fix: `a running daemon releases the boxes of idle sessions: start it with "${cmd('up')}"; if all of them are in use, wait, or raise [runner] boxesMax`,
    },
  ]
}

/** Processes that sessions left running. Nothing if none runs. Pure. */
export function backgroundFinding(names: readonly string[]): readonly Finding[] {
  if (names.length === 0) return []
  const shown = names.slice(0, NAMED_MAX).map(printable).join(', ')
  const more = names.length > NAMED_MAX ? ' and more' : ''
  const found = `${counted(names.length, 'background process', 'background processes')} of your sessions still running: ${shown}${more}`
  return [
    {
      check: 'processes',
      verdict: 'ok',
      found,
      fix: `to list them: ${cmd('processes')}; to stop one: ${cmd('processes')} stop NAME`,
    },
  ]
}

// ---- details, in the order they are used above ----

/** The fix says what to do. */
const happened = (fault: Fault): string => fault.report.message?.happened ?? fault.error

const whole = (stateDir: string, error: unknown): string =>
  `${join(stateDir, 'journal')}: ${isFault(error) ? happened(error) : String(error)}`

const damage = (found: string, fault?: Finding['fault']): Finding => ({
  check: 'journals',
  verdict: 'bad',
  found,
  fix: 'restore the journal from a backup; the damaged files stay unchanged until then, see docs/faults/journal_corrupt.md',
  ...(fault === undefined ? {} : { fault }),
})

const CHECK = 'storage'

const DAYS = 7
const DAY_MS = 86_400_000
const BYTES_MANY = 2 * 1024 ** 3
const ENTRIES_MAX = 200_000 // more take longer than anyone waits for
const BOXES_MAX = 1_000 // the runner's default

/** What the folder takes on disk. */
function sizeOf(folder: string): { readonly bytes: number; readonly isPart: boolean } {
  let bytes = 0
  let entries = 0
  const folders = [folder]
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    for (const entry of entriesOf(next)) {
      if (++entries > ENTRIES_MAX) return { bytes, isPart: true }
      const path = join(next, entry.name)
      if (entry.isDirectory()) folders.push(path)
      else bytes += bytesOf(path)
    }
  }
  return { bytes, isPart: false }
}

function bytesOf(path: string): number {
  try {
    return lstatSync(path).blocks * 512
  } catch {
    return 0 // removed meanwhile
  }
}

function entriesOf(folder: string): readonly Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch {
    return [] // missing, removed meanwhile, or not ours to read
  }
}

const foldersIn = (folder: string): readonly string[] =>
  entriesOf(folder)
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)

function isRunning(file: string): boolean {
  try {
    return readFileSync(file, 'utf8').includes('"state":"running"')
  } catch {
    return false // being made, or removed meanwhile
  }
}

const NAMED_MAX = 5
