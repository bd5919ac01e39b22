/** What this machine does not offer to boxes, why, and how to get it. Pure; `breakfall doctor` and /v1/config show it. */

export type MachineFacts = {
  readonly level: 'bwrap' | 'process' | null
  /** Why bubblewrap is not used. */
  readonly because: string | null
  readonly isRoot: boolean
  readonly seccomp: boolean
  readonly keyring: boolean
  readonly sharedNetwork: boolean
  /** Real paths; null: not installed. */
  readonly nsenter: string | null
  readonly ip: string | null
  readonly perl: string | null
  readonly setpriv: string | null
  /** Control groups that limits need. */
  readonly missingControllers: readonly string[]
  /** Ubuntu's rule against user namespaces of programs without a profile. */
  readonly appArmorRestricts: boolean
}

export type Lack = {
  /** As in `isolation` of the box record, if it is there. */
  readonly name: string
  readonly because: string
  readonly fix: string
}

export function lacksOf(facts: MachineFacts): readonly Lack[] {
  if (facts.level !== 'bwrap')
    return [{ name: 'sandbox', because: facts.because ?? 'bwrap does not work here', fix: sandboxFix(facts) }]
  return [
    ...(facts.seccomp
      ? []
      : [
          lack(
            'seccomp',
            `there is no filter for ${process.arch}, or bubblewrap cannot load it`,
            'use a machine with x64 or arm64 and bubblewrap 0.8 or newer',
          ),
        ]),
    ...(facts.keyring ? [] : [lack('keyring', 'neither perl nor keyctl is installed', 'install perl or keyutils')]),
    ...(facts.sharedNetwork ? [] : [lack('sharedNetwork', ...networkReason(facts))]),
    ...(facts.sharedNetwork && facts.ip === null
      ? [
          lack(
            'refused addresses',
            'ip is not installed, so connections to addresses without a name are refused and not listed',
            'install iproute2',
          ),
        ]
      : []),
    ...(facts.isRoot && facts.setpriv === null
      ? [
          lack(
            'workspaces of other owners',
            isBusybox(facts.nsenter) ? BUSYBOX : 'setpriv does not work here',
            'install util-linux',
          ),
        ]
      : []),
    ...(!facts.isRoot && facts.perl === null
      ? [
          lack(
            'guards',
            'perl is not installed, so a guarded file that is replaced on the host is not guarded again',
            'install perl',
          ),
        ]
      : []),
    ...facts.missingControllers.map((name) =>
      lack(
        `${name} limit`,
        `there is no control group for ${name} that this user may use`,
        'run the runner as a systemd service (breakfall service), or delegate the controller to your user',
      ),
    ),
  ]
}

export const APPARMOR_FIX =
  'Ubuntu restricts user namespaces: write "abi <abi/4.0>, include <tunables/global> profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }" to /etc/apparmor.d/bwrap and run "sudo apparmor_parser -r /etc/apparmor.d/bwrap"'

// ---- details ----

const BUSYBOX = "these are busybox's programs, which lack options that Breakfall needs"

const isBusybox = (path: string | null): boolean => path !== null && /busybox/.test(path)

const lack = (name: string, because: string, fix: string): Lack => ({ name, because, fix })

function sandboxFix({ appArmorRestricts }: MachineFacts): string {
  return appArmorRestricts
    ? APPARMOR_FIX
    : 'install bubblewrap, or allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1)'
}

function networkReason({ nsenter, appArmorRestricts, isRoot }: MachineFacts): readonly [because: string, fix: string] {
  if (nsenter === null) return ['nsenter is not on the PATH', 'install util-linux']
  if (isBusybox(nsenter)) return [BUSYBOX, 'install util-linux']
  if (appArmorRestricts && !isRoot)
    return ['AppArmor lets bubblewrap make user namespaces, but not join them', APPARMOR_FIX]
  return [
    'a sandbox cannot join the network of another here, as in some containers',
    'run the runner outside of the container, or as root',
  ]
}
