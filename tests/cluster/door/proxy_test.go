package door

import "testing"

func TestShortNamesAreTriedAsAPodWould(t *testing.T) {
	if got := candidates("web.shop.svc")[2]; got != "web.shop.svc.cluster.local." {
		t.Errorf("got %q", got)
	}
	if got := candidates("web.shop.svc.cluster.local."); len(got) != 1 || got[0] != "web.shop.svc.cluster.local." {
		t.Errorf("got %q", got)
	}
}
