/** How the files API and checkpoints reach the workspace of a box. */
import { openFolder, type OpenFolder } from '../files/walk.ts'
import type { Guarding, WorkspaceAccess } from '../files/workspace-files.ts'
import { type Guard, guardWorkspace, isGuarded } from './guards.ts'
import { setPlantedAside } from './planted-git-files.ts'
import type { StoredBox } from './stored-box.ts'
import { openSame } from './workspace-identity.ts'

export function workspaceOf(stored: StoredBox, machineBootId: string): WorkspaceAccess {
  const { hostWorkspace, hostIdentity, record, uid, gid } = stored
  const isOwn = record.workspace.kind === 'private'
  const owner = process.getuid?.() === 0 ? { uid, gid } : undefined
  const open = (): OpenFolder =>
    isOwn ? openFolder(hostWorkspace, []) : openSame(hostWorkspace, hostIdentity, machineBootId)
  return {
    open,
    boxPath: record.workspace.path,
    guarding: () => (isOwn ? UNGUARDED : guardingOf(stored, open, owner)),
    owner,
  }
}

// ---- details ----

const UNGUARDED: Guarding = { refuses: () => false, settle: () => undefined }

/** What a command could not change either, and what would be set aside if a command had made it. */
function guardingOf(
  { hostWorkspace: path, nested = () => [] }: StoredBox,
  open: () => OpenFolder,
  owner: WorkspaceAccess['owner'],
): Guarding {
  let guard: Guard
  try {
    guard = guardWorkspace(open(), path, owner, nested)
  } catch {
    return { refuses: isGuarded, settle: () => undefined } // a command moves it about, and is watched
  }
  const { mounts, repositories, elsewhere } = guard
  const isKnown = (name: string, numbers: string): boolean => repositories.get(name) === numbers
  const named = [...elsewhere].flatMap(([name, { steps, end }]) => [
    name,
    ...steps.map((step) => step.name),
    ...(end === undefined ? [] : [end.join('/')]),
  ])
  const readOnly = mounts.filter(({ mode }) => mode === 'ro').map(({ at }) => at.slice(path.length + 1))
  return {
    refuses: (parts) => {
      const name = parts.join('/')
      return (
        isGuarded(parts) ||
        named.includes(name) ||
        readOnly.some((each) => name === each || name.startsWith(`${each}/`))
      )
    },
    settle: () => {
      try {
        using folder = open()
        setPlantedAside(folder, { path, isKnown, elsewhere, owner, nested })
      } catch {
        // As above.
      }
    },
  }
}
