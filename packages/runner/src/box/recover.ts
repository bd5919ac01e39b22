/**
 * Recovers the execs of a box after a restart of the runner. Each is in one of four states: over already; still running
 * (its keeper is alive, so keep reading); ended meanwhile (the status file says how); or its outcome is unknown.
 *
 * I1  Never a second start, never an invented exit code, never "running" without a keeper.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecExit } from '@breakfall/wire'
import { ID_PATTERN } from '@breakfall/wire/internal'
import { parseRecord, RECORD_BYTES } from '../exec/event-log.ts'
import { END_REASONS, type EndReason } from '../exec/exit-record.ts'
import { claim, EXEC_FILES, removeWorkingFiles, withdraw } from '../exec/exec-folder.ts'
import { hasMark } from '../exec/process-table.ts'
import type { ReservedId } from '../exec/reservations.ts'
import { type KeeperStatus, parseStatus } from '../exec/keeper-status.ts'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import type { RunnerHost } from '../host/host.ts'
import { removeTree } from '../lib/disk.ts'
import { pollUntil } from '../lib/poll-until.ts'
import type { Box } from './box.ts'
import { keeperMark } from './keepers.ts'
import { workspaceOf } from './workspace-access.ts'
import { type ExecOnDisk, keepLost, repairExec, readExec } from './repair.ts'

export async function recoverBox(
  host: RunnerHost,
  box: Box,
  onDamage: (what: string, error: unknown) => void,
): Promise<void> {
  await removeTree(join(box.paths.folder, 'warm')) // of an earlier version: sandboxes that were built ahead and not used
  box.uploads.sweep(() => workspaceOf(box.stored, host.clock.machineBootId).open())
  await box.checkpoints?.recover()
  const folders = new Set(box.execs.onDisk())
  const reserved = new Map(box.reservations.read().map((entry) => [entry.execId, entry]))
  for (const execId of folders) {
    const found = await readOrRepair(host, box, execId, reserved.get(execId), onDamage)
    if (found !== undefined) await recoverExec(host, box, found)
  }
  for (const [execId, entry] of reserved) {
    // Reserved since the last boot, but no folder: refused before anything was made.
    if (entry.machineBootId === host.clock.machineBootId || folders.has(execId) || !ID_PATTERN.test(execId)) continue
    if (entry.isForgotten) continue // its record was removed; it gets a new one when a caller starts it again
    if (host.fences.isBurned(box.key, execId)) continue // it certainly never ran
    keepLost(host, box.execs, entry) // lost by a power cut: it may have run, and will not run again
  }
}

// ---- details ----

/** Undefined if the runner died while it made the folder, and nothing was started. */
async function readOrRepair(
  host: RunnerHost,
  box: Box,
  execId: string,
  reserved: ReservedId | undefined,
  onDamage: (what: string, error: unknown) => void,
): Promise<ExecOnDisk | undefined> {
  const folder = box.execs.folderOf(execId)
  try {
    return readExec(folder)
  } catch (error) {
    if (repairExec(host, execId, folder, reserved)) {
      onDamage(`exec ${execId} of box ${box.id} was damaged and has been repaired`, error)
      return readExec(folder)
    }
    await removeTree(folder)
    return undefined
  }
}

async function recoverExec(host: RunnerHost, box: Box, { reservation, end }: ExecOnDisk): Promise<void> {
  const { execId } = reservation
  const folder = box.execs.folderOf(execId)
  if (end !== undefined) {
    removeWorkingFiles(folder)
    box.execs.addFinished(execId, end, reservation.hash, isDropped(folder, end.exit))
    box.restarts.ended(reservation, end)
    return
  }
  const startedAtMs = startedAt(folder)
  const reason = reasonIn(folder)
  const exec = box.starter.open(reservation)
  const isThisBoot = reservation.machineBootId === host.clock.machineBootId
  if (isThisBoot && claim(folder)) {
    await exec.closeUnclaimed(reason) // no keeper had started it, and now none can
    return
  }
  const keeper = isThisBoot ? await keeperOf(host, box, folder) : undefined
  if (keeper !== undefined) {
    exec.adopt(keeper, startedAtMs, reason)
    return
  }
  withdraw(folder) // a keeper that was held up right after its claim finds nothing to run
  await exec.closeOrphan(startedAtMs, reason)
}

function reasonIn(folder: string): EndReason | null {
  const text = readText(join(folder, EXEC_FILES.reason))
  return END_REASONS.find((reason) => reason === text) ?? null
}

/** A keeper writes its status line right after its claim; waiting a little distinguishes "not yet" from "gone". */
async function keeperOf(host: RunnerHost, box: Box, folder: string): Promise<number | undefined> {
  const { keeper, name } =
    (await pollUntil(() => statusIn(folder), { everyMs: 10, forMs: RUNNER_DEFAULTS.keeperNoteMs })) ?? {}
  if (keeper === undefined || name === undefined) return undefined
  return hasMark(keeper, keeperMark(host.runnerId, box.groupName, name)) ? keeper : undefined
}

function statusIn(folder: string): KeeperStatus | undefined {
  const status = parseStatus(readText(join(folder, EXEC_FILES.status)))
  return status.keeper === undefined ? undefined : status
}

function startedAt(folder: string): number | null {
  const record = parseRecord(readFileSync(join(folder, EXEC_FILES.index)).subarray(0, RECORD_BYTES))
  return record?.kind === 'start' ? record.atMs : null
}

function isDropped(folder: string, exit: ExecExit): boolean {
  const has = (name: string): boolean => existsSync(join(folder, name))
  return (exit.stdoutBytes > 0 && !has('stdout')) || (exit.stderrBytes > 0 && !has('stderr'))
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return '' // not written yet
  }
}
