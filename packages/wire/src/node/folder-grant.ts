/**
 * The permission of one box to use folders of this machine, for a user who starts a session in a folder that no setting allows. It
 * is a signature over these folders, with a key that only this user's processes can read. So it is valid for no other folder, and
 * a caller of the API cannot make one: it does not know the key.
 */
import { createHmac } from 'node:crypto'
import { sameToken } from './guards.ts'
import { loadTokens } from './tokens.ts'

/** Real paths: a symbolic link that is changed later leads to a folder that was not signed. */
export type SignedFolders = {
  readonly workspace: string | undefined
  readonly mounts: readonly { readonly path: string; readonly mode: 'ro' | 'rw' }[]
}

/** Makes the key if there is none. */
export function signFolders(keyFile: string, { workspace, mounts }: SignedFolders): string {
  const [grant] = loadTokens(keyFile)
  const folders = JSON.stringify([workspace ?? null, mounts.map(({ path, mode }) => [path, mode])])
  return createHmac('sha256', grant?.token ?? '')
    .update(folders)
    .digest('hex')
}

export const isSigned = (keyFile: string, folders: SignedFolders, grant: string): boolean =>
  sameToken(signFolders(keyFile, folders), grant)

/** In the state folder of a runner, which no box can see. */
export const FOLDER_KEY = 'folders.key'
