/** How the files API reaches the workspace of a box. */
import { openFolder } from '../files/walk.ts'
import type { WorkspaceAccess } from '../files/workspace-files.ts'
import { isGuarded } from './guards.ts'
import type { StoredBox } from './stored-box.ts'
import { openSame } from './workspace-identity.ts'

export function workspaceOf(stored: StoredBox, machineBootId: string): WorkspaceAccess {
  const { hostWorkspace, hostIdentity, record, uid, gid } = stored
  return {
    open: () =>
      record.workspace.kind === 'private'
        ? openFolder(hostWorkspace, [])
        : openSame(hostWorkspace, hostIdentity, machineBootId),
    boxPath: record.workspace.path,
    isGuarded: (parts) => record.workspace.kind === 'host' && isGuarded(parts),
    owner: process.getuid?.() === 0 ? { uid, gid } : undefined,
  }
}
