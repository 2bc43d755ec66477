#!/bin/sh
# First process of the emulated machine: mounts, loads modules, then serves each virtio-serial port until the other side
# closes it. A port is asked with a line of shell words:
#   run WORDS    answers "STATUS OUT ERR\n" and then OUT bytes of standard output and ERR bytes of standard error
#   speak WORDS  gives the port to the program as standard input and output, and says "exit STATUS\n" after it
export PATH=/usr/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
while read -r module; do modprobe "$module"; done </modules

serve() {
    while read -r kind words; do
        case $kind in
        run)
            eval "$words" </dev/null >"/run/$1.out" 2>"/run/$1.err"
            status=$?
            # Unquoted: the two sizes come on two lines.
            echo $status $(stat -c %s "/run/$1.out" "/run/$1.err")
            cat "/run/$1.out" "/run/$1.err"
            ;;
        speak)
            eval "$words" 2>/dev/console
            echo "exit $?"
            ;;
        esac
    done
}

for port in /dev/vport*; do
    serve "${port##*/}" <>"$port" >&0 &
done
wait
poweroff -f
