/**
 * The background processes of a runner's boxes, as its folder and the process table say. For a look without a runner: a process outlives
 * the runner that started it. Reads only.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readReadiness } from '../exec/background.ts'
import { endText, EXEC_FILES, readReservation } from '../exec/exec-folder.ts'
import { hasMark } from '../exec/process-table.ts'
import { parseStatus } from '../exec/keeper-status.ts'
import { runnerIdIn } from '../host/identity.ts'
import { groupNameOf, keeperMark } from './keepers.ts'

export type BackgroundOnDisk = {
  readonly boxId: string
  readonly execId: string
  readonly name: string
  readonly ports: readonly number[]
}

/** `stateDir`: the runner's. `boxId`: only those of this box. */
export function backgroundOnDisk(stateDir: string, boxId?: string): readonly BackgroundOnDisk[] {
  const root = join(stateDir, 'boxes')
  return namesIn(root).flatMap((prefix) =>
    namesIn(join(root, prefix))
      .filter((id) => boxId === undefined || id === boxId)
      .flatMap((id) => inBox(join(root, prefix, id), { boxId: id, prefix, stateDir })),
  )
}

// ---- details, in the order they are used above ----

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    return [] // missing, removed meanwhile, or not ours to read
  }
}

type Place = { readonly stateDir: string; readonly prefix: string; readonly boxId: string }

const inBox = (folder: string, place: Place): readonly BackgroundOnDisk[] =>
  namesIn(join(folder, 'execs')).flatMap((execId) => {
    const found = running(join(folder, 'execs', execId), place)
    return found === undefined ? [] : [{ boxId: place.boxId, execId, ...found }]
  })

/** Undefined if it runs in the foreground, has ended, or cannot be read. */
function running(
  folder: string,
  { stateDir, prefix, boxId }: Place,
): Pick<BackgroundOnDisk, 'name' | 'ports'> | undefined {
  try {
    const { request, execId } = readReservation(folder)
    if (request.background === undefined || endText(folder) !== '') return undefined
    const { keeper, name } = parseStatus(readFileSync(join(folder, EXEC_FILES.status), 'latin1'))
    if (keeper === undefined || name === undefined) return undefined
    if (!hasMark(keeper, keeperMark(runnerIdIn(stateDir), groupNameOf(prefix, boxId), name))) return undefined
    return { name: request.background.name ?? execId, ports: readReadiness(folder)?.ports ?? [] }
  } catch {
    return undefined // removed meanwhile, or damaged: the runner reports that
  }
}
