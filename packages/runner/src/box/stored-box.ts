/** A box on disk: its record, the runner's private data about it, and the paths of its files. */
import { chmodSync, chownSync, existsSync, readdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { isObject } from '@breakfall/faults/internal'
import { type Box as BoxRecord, boxSchema } from '@breakfall/wire'
import type { HomeFiles } from '../home/home-files.ts'
import { BOX_HOME } from '../isolation/mount-layout.ts'
import { makeFolder, readJsonFile, writeJsonDurably } from '../lib/disk.ts'
import type { NestedIn } from './planted-git-files.ts'
import { type FolderIdentity, readFolderIdentity } from './workspace-identity.ts'

export type StoredBox = {
  record: BoxRecord
  readonly env: Readonly<Record<string, string>>
  readonly hostWorkspace: string
  /** Identifies the folder that the box was created on; only for host workspaces. */
  readonly hostIdentity?: FolderIdentity | undefined
  /** Of each folder in `record.mounts`. A command could make its path lead elsewhere. */
  readonly mountIdentities?: readonly FolderIdentity[] | undefined
  readonly uid: number
  readonly gid: number
  /** The words that put a sandbox into the shared network of the box, while it has one. Not stored. */
  join?: (() => readonly string[] | undefined) | undefined
  /** Reads the indexes of its repositories. Not stored. */
  nested?: NestedIn | undefined
  /** The names that the box may reach, without presets; only if its network is a list. */
  allowed?: readonly string[] | undefined
  /** The highest epoch seen; calls with a lower one are refused. */
  epoch: number
}

export type BoxPaths = {
  readonly folder: string
  readonly file: string
  readonly execs: string
  readonly network: string
  readonly names: string
  readonly denied: string
  readonly resolv: string
  readonly reservations: string
  readonly uploads: string
  readonly checkpoints: string
  readonly workspace: string
  readonly tmp: string
  readonly home: string
  readonly passwd: string
  readonly group: string
}

export function boxPaths(folder: string): BoxPaths {
  return {
    folder,
    file: join(folder, 'box.json'),
    execs: join(folder, 'execs'),
    network: join(folder, 'network.json'),
    names: join(folder, 'names.json'),
    denied: join(folder, 'denied.json'),
    resolv: join(folder, 'resolv.conf'),
    reservations: join(folder, 'reservations'),
    uploads: join(folder, 'uploads'),
    checkpoints: join(folder, 'checkpoints'),
    workspace: join(folder, 'workspace'),
    tmp: join(folder, 'tmp'),
    home: join(folder, 'home'),
    passwd: join(folder, 'passwd'),
    group: join(folder, 'group'),
  }
}

export function makeBoxFolders(
  paths: BoxPaths,
  { record, uid, gid }: Pick<StoredBox, 'record' | 'uid' | 'gid'>,
  files: HomeFiles,
): void {
  const isPrivate = record.workspace.kind === 'private'
  for (const folder of [paths.execs, paths.tmp, paths.home, ...(isPrivate ? [paths.workspace] : [])]) makeFolder(folder)
  const name = uid === 0 ? 'root' : 'box'
  const home = record.home?.path ?? BOX_HOME
  writeFileSync(
    paths.passwd,
    `${uid === 0 ? '' : 'root:x:0:0:root:/root:/usr/sbin/nologin\n'}${name}:x:${uid}:${gid}:${name}:${home}:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`,
  )
  writeFileSync(paths.group, `${gid === 0 ? '' : 'root:x:0:\n'}${name}:x:${gid}:\nnogroup:x:65534:\n`)
  writeFileSync(paths.resolv, 'nameserver 127.0.0.1\n')
  for (const file of [paths.passwd, paths.group, paths.resolv]) chmodSync(file, 0o644)
  for (const [file, text] of files) writeFileSync(join(paths.home, file), text, { mode: 0o644 })
  const owned = [paths.tmp, paths.home, ...[...files.keys()].map((file) => join(paths.home, file))]
  if (process.getuid?.() === 0) for (const path of owned) chownSync(path, uid, gid)
}

export function saveBox(paths: BoxPaths, box: StoredBox): void {
  writeJsonDurably(paths.file, box)
}

/** Undefined if the folder holds no box, because its creation was cut off. Throws if its record is damaged. */
export function loadBox(paths: BoxPaths): StoredBox | undefined {
  const json = readJsonFile(paths.file)
  if (json === undefined && isBeingMade(paths)) return undefined
  const {
    record: stored,
    env,
    hostWorkspace,
    hostIdentity,
    mountIdentities,
    uid,
    gid,
    epoch,
    allowed,
  } = isObject(json) ? json : {}
  const record = boxSchema.parse(stored)
  if (
    record.id !== basename(paths.folder) ||
    typeof hostWorkspace !== 'string' ||
    !isTextRecord(env) ||
    !isInteger(uid) ||
    !isInteger(gid) ||
    !isInteger(epoch) ||
    (allowed !== undefined && !isTextList(allowed)) ||
    (typeof record.network === 'object' && allowed === undefined)
  )
    throw new Error('the record of the box is damaged')
  const identities = Array.isArray(mountIdentities)
    ? mountIdentities.flatMap((each) => readFolderIdentity(each) ?? [])
    : undefined
  return {
    record,
    env,
    hostWorkspace,
    hostIdentity: readFolderIdentity(hostIdentity),
    mountIdentities: identities,
    uid,
    gid,
    epoch,
    allowed,
  }
}

const isTextList = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((entry) => typeof entry === 'string')

const isInteger = (value: unknown): value is number => Number.isInteger(value)

const isTextRecord = (value: unknown): value is Record<string, string> =>
  isObject(value) && Object.values(value).every((entry) => typeof entry === 'string')

/** The record is written last, so a box in which anything ran or is stored has had one. */
function isBeingMade(paths: BoxPaths): boolean {
  const isEmpty = (folder: string): boolean => !existsSync(folder) || readdirSync(folder).length === 0
  return !existsSync(paths.reservations) && isEmpty(paths.execs) && isEmpty(paths.workspace)
}
